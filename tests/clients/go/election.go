package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// election plays one candidate (NAMESPACE IDENTITY); the caller starts two and kills one.
func election(ctx context.Context, config *rest.Config, arguments []string) error {
	space, identity := arguments[0], arguments[1]
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: space, Name: "lock"},
		Client:     clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 500 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				record, _, err := lock.Get(ctx)
				if err != nil {
					see("leads", refusal(err))
					return
				}
				see("leads", map[string]any{
					"holder": record.HolderIdentity, "transitions": record.LeaderTransitions,
					"seconds": record.LeaseDurationSeconds,
				})
			},
			OnStoppedLeading: func() { see("stopped", identity) },
			OnNewLeader:      func(leader string) { see("follows", leader) },
		},
	})
	return nil
}
