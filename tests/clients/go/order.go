package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// balanced dials the servers in turn, and the next one where one refuses: a load balancer before API processes.
type balanced struct {
	servers []string
	next    atomic.Uint64
}

func (b *balanced) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var last error
	for range 100 {
		address := b.servers[b.next.Add(1)%uint64(len(b.servers))]
		conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		last = err
		time.Sleep(20 * time.Millisecond)
	}
	return nil, last
}

// writers is how many chains of writes run side by side; each has one object, whose numbers only grow.
const writers = 8

// order plays writers and an informer (NAMESPACE SERVER …) while the caller restarts one server after the other. Each
// writer updates its own ConfigMap with the next number; the informer must see each name's numbers grow, and the last.
func order(ctx context.Context, config *rest.Config, arguments []string) error {
	space, pool := arguments[0], &balanced{servers: arguments[1:]}
	config.Dial = pool.dial
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := newNamespace(ctx, clients, space); err != nil {
		return err
	}
	seen := &growing{last: map[string]int{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(space),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "part=a" }))
	shared := factory.Core().V1().ConfigMaps().Informer()
	if _, err := shared.AddEventHandler(seen.handlers()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), shared.HasSynced)
	see("ready", nil)
	inside, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	chains := make([]*chain, writers)
	for number := range chains {
		chains[number] = &chain{name: fmt.Sprintf("chain-%d", number)}
		running.Go(func() { chains[number].run(inside, clients, space) })
	}
	err = pause()
	stop()
	running.Wait()
	if err != nil {
		return err
	}
	lost, total := []string{}, 0
	ends := map[string]int{}
	for _, one := range chains {
		lost = append(lost, one.lost...)
		total += one.number
		ends[one.name] = one.number
	}
	err = until(ctx, "the last writes", func() (bool, error) { return seen.reached(ends), nil })
	see("order", map[string]any{
		"lost": lost, "writes": total, "events": seen.events, "backwards": seen.backwards, "reached": err == nil,
	})
	return nil
}

// chain writes 1, 2, 3 … into its own object. `lost` are failures that no client would try again by itself.
type chain struct {
	name   string
	number int
	lost   []string
}

func (c *chain) run(ctx context.Context, clients kubernetes.Interface, space string) {
	maps := clients.CoreV1().ConfigMaps(space)
	background := context.Background()
	for ctx.Err() == nil {
		body := configMap(c.name, strconv.Itoa(c.number+1))
		var err error
		if c.number == 0 {
			_, err = maps.Create(background, body, metav1.CreateOptions{})
		} else {
			_, err = maps.Update(background, body, metav1.UpdateOptions{})
		}
		if err == nil {
			c.number++
			continue
		}
		if delay, told := apierrors.SuggestsClientDelay(err); told {
			time.Sleep(time.Duration(delay) * time.Second)
			continue
		}
		c.lost = append(c.lost, err.Error())
		time.Sleep(100 * time.Millisecond)
	}
}

// growing checks that the number of each name never goes back.
type growing struct {
	sync.Mutex
	last              map[string]int
	events, backwards int
}

func (g *growing) note(found any) {
	body := found.(*corev1.ConfigMap)
	number, _ := strconv.Atoi(body.Data["key"])
	g.Lock()
	defer g.Unlock()
	g.events++
	if number < g.last[body.Name] {
		g.backwards++
	}
	g.last[body.Name] = number
}

func (g *growing) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: g.note, UpdateFunc: func(_, found any) { g.note(found) }}
}

func (g *growing) reached(ends map[string]int) bool {
	g.Lock()
	defer g.Unlock()
	for name, number := range ends {
		if g.last[name] < number {
			return false
		}
	}
	return true
}
