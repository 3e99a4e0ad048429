package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/mirrorset-guard/mirrorset-guard/internal/events"
	live "github.com/mirrorset-guard/mirrorset-guard/inventory/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/review/report"
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// testFollowing: the guard says on the mirror set what becomes of its rollout, and why it stands
// still.
func testFollowing(t *testing.T, c realCluster) {
	kube := kubernetes.NewForConfigOrDie(c.Config)
	events, err := kube.EventsV1().Events(events.Namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	inventory, err := live.New(c.Config, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	metrics := prometheus.NewRegistry()
	follower, err := rollouts.NewFollower(rollouts.Options{
		Source: inventory, StallAfter: 2 * time.Second, Every: 100 * time.Millisecond, Metrics: metrics,
		Outlet: report.Outlet{Reporter: report.Events(kube.EventsV1(), rollouts.Author("guard-0"), nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	following := make(chan struct{})
	go func() {
		defer close(following)
		inventory.Run(ctx) //nolint:errcheck // it returns nil
	}()
	go func() {
		defer close(ended)
		if inventory.WaitReady(ctx) == nil {
			follower.Run(ctx)
		}
	}()
	defer func() {
		cancel()
		<-ended
		<-following
	}()

	c.holdUp(t)
	wantEvent(t, events, rollouts.MirrorRolloutBegan, "Normal", "pool worker gets rendered-worker-2: registries.conf for quay.io/shop; a node drains and reloads CRI-O, 1 at a time")
	wantEvent(t, events, rollouts.MirrorRolloutStalled, "Warning", "pool worker has not moved for", "pod default/cart is not evicted: budget cart allows no disruption")
	for name, want := range map[string]float64{"active": 1, "stalled": 1, "following": 1} {
		if got := gauge(t, metrics, "mirrorset_guard_rollout_"+name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if out, err := c.Kubectl(t.Context(), "", "delete", "pod", "cart", "--force"); err != nil {
		t.Fatal(out)
	}
	wantEvent(t, events, rollouts.MirrorRolloutResumed, "Normal", "pool worker moves again")
	c.cordon(t, "node-a", false)
	c.update(t, "node-a", "rendered-worker-2")
	c.update(t, "node-b", "rendered-worker-2")
	c.counted(t, "worker", "rendered-worker-2", 2)
	wantEvent(t, events, rollouts.MirrorRolloutEnded, "Normal", "pool worker has rendered-worker-2 on 2 of 2 nodes")

	cancel()
	<-ended
	if got := gauge(t, metrics, "mirrorset_guard_rollout_active"); got != -1 {
		t.Errorf("a replica that does not follow any more says %v", got)
	}
	if got := gauge(t, metrics, "mirrorset_guard_rollout_following"); got != 0 {
		t.Errorf("it follows: %v", got)
	}
}

// wantEvent waits for the Event about mirror set shop that has all parts. Between what the test
// does to the cluster and what it does next, the rollout may stall for long enough to be
// reported, and go on: such Events may come before.
func wantEvent(t *testing.T, events watch.Interface, reason, kind string, parts ...string) {
	t.Helper()
	var seen []string
	limit := time.After(clitest.WatchLimit)
	for {
		select {
		case next := <-events.ResultChan():
			e, ok := next.Object.(*eventsv1.Event)
			if !ok {
				t.Fatalf("got %+v", next)
			}
			if next.Type != watch.Added || !strings.HasPrefix(e.ReportingController, "mirrorset-guard.io/") {
				continue
			}
			if e.Regarding.Kind != "ImageTagMirrorSet" || e.Regarding.Name != "shop" || e.Regarding.UID == "" {
				t.Fatalf("%s is about %+v", e.Reason, e.Regarding)
			}
			seen = append(seen, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
			missing := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(e.Note, part) })
			switch {
			case e.Reason == reason && e.Type == kind && !missing:
				return
			case e.Reason != rollouts.MirrorRolloutStalled && e.Reason != rollouts.MirrorRolloutResumed:
				t.Fatalf("got %q, want %s %s with %q", seen, kind, reason, parts)
			}
		case <-limit:
			t.Fatalf("no Event %s with %q, but %q", reason, parts, seen)
		}
	}
}

// gauge returns the value of a metric with one series, -1 if there is none.
func gauge(t *testing.T, metrics prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
