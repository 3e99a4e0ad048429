// Package election lets one of several processes do what only one should, by a Lease.
package election

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// LeaseName is that of the Lease that the leader holds. The role of the manifests
// grants no other.
const LeaseName = "mirrorset-guard"

// How the Lease is held, in the values that Kubernetes' own components have.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// An Election is this process's part in choosing the one that leads.
type Election struct {
	lock *resourcelock.LeaseLock
	log  logr.Logger

	leading sync.Mutex // held by the goroutine that does it
}

// New returns the Election by the Lease in namespace, in which this process
// takes part under name.
func New(config *rest.Config, namespace, name string, log logr.Logger) (*Election, error) {
	config = rest.CopyConfig(config)
	config.Timeout = renewDeadline / 2 // a request that hangs leaves time for another
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the Lease: %w", err)
	}
	return &Election{log: log, lock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: LeaseName},
		Client:     kube.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}}, nil
}

// Instance tells this process from all others: the pod's name, and something that
// a container restarted in the pod does not have.
func Instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + rand.Text()[:8]
}

// Run calls lead whenever this process is the leader, with a context that ends when it
// no longer is, until ctx ends.
func (e *Election) Run(ctx context.Context, lead func(context.Context)) {
	ctx = klog.NewContext(ctx, e.log)
	for ctx.Err() == nil {
		e.term(ctx, lead)
	}
}

// term takes part until this process has been the leader once, or ctx ends. The Lease
// is given back, so that another replica need not wait for its end.
func (e *Election) term(ctx context.Context, lead func(context.Context)) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: LeaseName, ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { e.lead(ctx, lead) },
			OnStoppedLeading: func() {}, // the context ends
		},
	})
	if err != nil {
		panic(err) // the constants above contradict each other
	}
	elector.Run(ctx)
	e.leading.Lock() // Run does not wait for what it started
	defer e.leading.Unlock()
}

func (e *Election) lead(ctx context.Context, lead func(context.Context)) {
	e.leading.Lock()
	defer e.leading.Unlock()
	if ctx.Err() != nil {
		return // the term was over before this began
	}
	e.log.Info("Leading", "instance", e.lock.Identity())
	lead(ctx)
	e.log.Info("No longer leading", "instance", e.lock.Identity())
}
