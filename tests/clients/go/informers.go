package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const items = 120

// gate is a network that can be cut: connections end, and new ones are refused until it opens again.
type gate struct {
	sync.Mutex
	shut  bool
	conns map[net.Conn]bool
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.Lock()
	defer g.Unlock()
	if g.shut {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED} // which a reflector tries again
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		g.conns[conn] = true
	}
	return conn, err
}

func (g *gate) set(shut bool) {
	g.Lock()
	defer g.Unlock()
	g.shut = shut
	if shut {
		for conn := range g.conns {
			_ = conn.Close()
		}
		clear(g.conns)
	}
}

// journal is what an informer told, in its order.
type journal struct {
	sync.Mutex
	lines []string
	store cache.Store
}

func (j *journal) note(format string, values ...any) {
	j.Lock()
	defer j.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, values...))
}

// take returns the lines since the last call.
func (j *journal) take() []string {
	j.Lock()
	defer j.Unlock()
	taken := j.lines
	j.lines = nil
	return taken
}

func (j *journal) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(found any) {
			j.note("add %s %s", found.(*corev1.ConfigMap).Name, found.(*corev1.ConfigMap).Data["key"])
		},
		UpdateFunc: func(_, found any) {
			j.note("update %s %s", found.(*corev1.ConfigMap).Name, found.(*corev1.ConfigMap).Data["key"])
		},
		DeleteFunc: func(found any) {
			if unknown, missed := found.(cache.DeletedFinalStateUnknown); missed {
				j.note("missed the end of %s", unknown.Key)
				return
			}
			j.note("delete %s", found.(*corev1.ConfigMap).Name)
		},
	}
}

// holds says whether the informer's store is what the server lists.
func (j *journal) holds(ctx context.Context, maps typedcore.ConfigMapInterface) (bool, error) {
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "part=a"})
	if err != nil {
		return false, err
	}
	for _, item := range list.Items {
		kept, found, _ := j.store.GetByKey(item.Namespace + "/" + item.Name)
		if !found || kept.(*corev1.ConfigMap).ResourceVersion != item.ResourceVersion {
			return false, nil
		}
	}
	return len(list.Items) == len(j.store.ListKeys()), nil
}

func watching(ctx context.Context, clients kubernetes.Interface, space string, resync time.Duration) (*journal, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(clients, resync, informers.WithNamespace(space),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "part=a" }))
	shared := factory.Core().V1().ConfigMaps().Informer()
	seen := &journal{store: shared.GetStore()}
	if _, err := shared.AddEventHandler(seen.handlers()); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		return nil, errors.New("the informer did not sync")
	}
	return seen, nil
}

// informer plays a shared informer that loses its server twice. Both times the caller is waited for: the first time it
// may compact the log, the second time it restarts the server.
func informer(ctx context.Context, config *rest.Config, arguments []string) error {
	space := arguments[0]
	outside, err := kubernetes.NewForConfig(config) // never cut
	if err != nil {
		return err
	}
	cut := &gate{conns: map[net.Conn]bool{}}
	inside := rest.CopyConfig(config)
	inside.Dial = cut.dial
	clients, err := kubernetes.NewForConfig(inside)
	if err != nil {
		return err
	}
	if err := newNamespace(ctx, outside, space); err != nil {
		return err
	}
	maps := outside.CoreV1().ConfigMaps(space)
	for number := range items {
		if _, err := maps.Create(ctx, configMap(fmt.Sprintf("item-%03d", number), "0"), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	seen, err := watching(ctx, clients, space, 0)
	if err != nil {
		return err
	}
	if err := until(ctx, "the first look", func() (bool, error) { return seen.holds(ctx, maps) }); err != nil {
		return err
	}
	first := seen.take()
	slices.Sort(first)
	see("synced", map[string]any{"count": len(first), "first": first[0], "last": first[len(first)-1]})
	if err := away(ctx, cut, seen, maps); err != nil {
		return err
	}
	return restarted(ctx, seen, maps)
}

// away changes things while the informer is cut off, and looks at what it tells when it is back. A watch that showed
// nothing before its end is not resumed, so one change comes first.
func away(ctx context.Context, cut *gate, seen *journal, maps typedcore.ConfigMapInterface) error {
	if _, err := maps.Update(ctx, configMap("item-002", "1"), metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := until(ctx, "a change", func() (bool, error) { return seen.holds(ctx, maps) }); err != nil {
		return err
	}
	see("changed", seen.take())
	cut.set(true)
	for value := 1; value <= 3; value++ {
		if _, err := maps.Update(ctx, configMap("item-000", fmt.Sprint(value)), metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if err := maps.Delete(ctx, "item-001", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if _, err := maps.Create(ctx, configMap("new", "0"), metav1.CreateOptions{}); err != nil {
		return err
	}
	see("away", seen.take())
	if err := pause(); err != nil {
		return err
	}
	cut.set(false)
	if err := until(ctx, "back", func() (bool, error) { return seen.holds(ctx, maps) }); err != nil {
		return err
	}
	see("back", seen.take())
	return nil
}

// restarted writes until the server that the caller restarted takes it.
func restarted(ctx context.Context, seen *journal, maps typedcore.ConfigMapInterface) error {
	see("ready for a restart", nil)
	if err := pause(); err != nil {
		return err
	}
	for _, name := range []string{"after-0", "after-1", "after-2"} {
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			_, err := maps.Create(ctx, configMap(name, "0"), metav1.CreateOptions{})
			return err == nil, nil
		})
		if err != nil {
			return err
		}
	}
	if err := until(ctx, "after the restart", func() (bool, error) { return seen.holds(ctx, maps) }); err != nil {
		return err
	}
	see("after the restart", seen.take())
	return nil
}

// resync plays an informer that hands out its whole store again every second.
func resync(ctx context.Context, config *rest.Config, arguments []string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := newNamespace(ctx, clients, arguments[0]); err != nil {
		return err
	}
	maps := clients.CoreV1().ConfigMaps(arguments[0])
	for _, name := range []string{"one", "two"} {
		if _, err := maps.Create(ctx, configMap(name, "0"), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	seen, err := watching(ctx, clients, arguments[0], time.Second)
	if err != nil {
		return err
	}
	lines := map[string]bool{}
	err = until(ctx, "two resyncs", func() (bool, error) {
		for _, line := range seen.take() {
			lines[line] = true
		}
		return lines["update one 0"] && lines["update two 0"], nil
	})
	see("resynced", lines)
	return err
}
