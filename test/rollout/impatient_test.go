package rollout

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts/watch"
	"github.com/mirrorset-guard/mirrorset-guard/review/watchloop"
)

// An impatientWatch is the watch of `rollout watch` in this process, for which a pool has stalled earlier than
// for the command.
type impatientWatch struct {
	t       *testing.T
	mu      sync.Mutex
	told    []progress.Event
	some    chan struct{} // closed once there is something
	outcome watch.Outcome
	ended   chan error
}

// watchImpatiently waits for objects, as startWatch does.
func watchImpatiently(ctx context.Context, t *testing.T, kubeconfig string, o watch.Options, objects ...mirrors.Object) *impatientWatch {
	t.Helper()
	w := &impatientWatch{t: t, some: make(chan struct{}), ended: make(chan error, 1)}
	config := configOf(t, kubeconfig)
	inventory, err := environment.Progress(config)
	if err != nil {
		t.Fatal(err)
	}
	edit := mirrors.Join(convert.Each(objects, mirrors.Put)...)
	o.Goal, o.Now, o.Print, o.Progress = verify.Goal{Edit: &edit}, time.Now, w.print, io.Discard
	o.Check = func([]*mcfgv1.MachineConfigPool) error { return nil }
	o.Config = func() (*rest.Config, error) { return config, nil }
	go func() {
		outcome, err := watch.New(inventory, o).Run(ctx)
		w.outcome = outcome
		w.ended <- err
	}()
	select {
	case <-w.some:
	case err := <-w.ended:
		t.Fatalf("the watch has ended: %v", err)
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return w
}

// print takes what has happened.
func (w *impatientWatch) print(events []progress.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) == 0 && len(events) > 0 {
		close(w.some)
	}
	w.told = append(w.told, events...)
	return nil
}

// soFar returns what it has told.
func (w *impatientWatch) soFar() []progress.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

// end waits for its end, and returns whether the goal was reached, and what it told.
func (w *impatientWatch) end(ctx context.Context) (bool, []progress.Event) {
	w.t.Helper()
	select {
	case err := <-w.ended:
		if err != nil {
			w.t.Fatalf("the watch: %v", err)
		}
	case <-ctx.Done():
		w.t.Fatal(ctx.Err())
	}
	return w.outcome.Good, w.soFar()
}

// impatient is the instance whose Events followImpatiently writes.
const impatient = "impatient"

// followImpatiently follows rollouts as the guard does, in this process, with Events of the instance impatient, until
// the test ends.
func followImpatiently(t *testing.T, kubeconfig string, stallAfter time.Duration) {
	t.Helper()
	config := configOf(t, kubeconfig)
	inventory, err := live.New(config, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	follower, err := rollouts.NewFollower(rollouts.Options{
		Source: inventory, StallAfter: stallAfter,
		Outlet: watchloop.Outlet{Reporter: watchloop.Events(kubernetes.NewForConfigOrDie(config).EventsV1(), rollouts.Author(impatient), nil), Budget: watchloop.NewBudget()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var following sync.WaitGroup
	following.Go(func() { _ = inventory.Run(ctx) }) // it returns nil
	following.Go(func() {
		if inventory.WaitReady(ctx) == nil {
			follower.Run(ctx)
		}
	})
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	if err := inventory.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func configOf(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
