// Clients that other people write in Go, as one program: each story plays one of them on the server of $KUBECONFIG.
//
// A story says what it saw as one JSON line a step: {"step": NAME, "saw": VALUE}. Nothing in a line depends on the
// server's choice of uids, revisions or times, so that the lines of two servers can be compared. A story that waits for
// its caller reads one line of stdin.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const patience = 60 * time.Second

var stories = map[string]func(context.Context, *rest.Config, []string) error{
	"typed":    typed,
	"informer": informer,
	"resync":   resync,
	"election": election,
	"manager":  manager,
	"apply":    apply,
	"order":    order,
}

var stdin = bufio.NewReader(os.Stdin)

func main() {
	ctrl.SetLogger(logr.Discard())
	klog.LogToStderr(true)
	if len(os.Args) < 2 || stories[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: clients STORY [ARGUMENT …]")
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	config.QPS = -1
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := stories[os.Args[1]](ctx, config, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// see prints one step.
func see(step string, saw any) {
	line, err := json.Marshal(map[string]any{"step": step, "saw": saw})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// pause waits for the caller's word.
func pause() error {
	_, err := stdin.ReadString('\n')
	return err
}

// refusal is what a client can tell of an error: nil where there is none.
func refusal(err error) any {
	if err == nil {
		return nil
	}
	status, known := err.(apierrors.APIStatus)
	if !known {
		return err.Error()
	}
	return map[string]any{
		"code": status.Status().Code, "reason": status.Status().Reason, "message": status.Status().Message,
	}
}

// until asks again until the condition holds; an error counts as "not yet", and the last one is in the result.
func until(ctx context.Context, what string, probe func() (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		done, err := probe()
		last = err
		return done && err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w (last: %v)", what, err, last)
	}
	return nil
}
