package main

import (
	"context"
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
	"github.com/mirrorset-guard/mirrorset-guard/review/rollouts"
	"github.com/mirrorset-guard/mirrorset-guard/review/standing"
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
		Source: inventory, Reporter: rollouts.Events(kube.EventsV1(), "guard-0"), Budget: standing.NewBudget(),
		StallAfter: 2 * time.Second, Every: 100 * time.Millisecond, Metrics: metrics,
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

// wantEvent waits for the next Event about mirror set shop.
func wantEvent(t *testing.T, events watch.Interface, reason, kind string, parts ...string) {
	t.Helper()
	limit := time.After(watchLimit)
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
			if e.Reason != reason || e.Type != kind || e.Regarding.Kind != "ImageTagMirrorSet" || e.Regarding.Name != "shop" || e.Regarding.UID == "" {
				t.Fatalf("got %s %s %s %+v, want %s", e.Type, e.Reason, e.Note, e.Regarding, reason)
			}
			for _, part := range parts {
				if !strings.Contains(e.Note, part) {
					t.Errorf("%q is not in %q", part, e.Note)
				}
			}
			return
		case <-limit:
			t.Fatal("no Event ", reason)
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

func TestFollowingFlags(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0: "", time.Minute: "", time.Millisecond: "--rollout-stall-after 1ms: want 1s or more; 0 is for not following rollouts",
	} {
		o := serveOptions{standing: standingFlags{following: followingFlags{stallAfter: after}}}
		if got := o.validate(); got == nil && want != "" || got != nil && got.Error() != want {
			t.Errorf("%s: got %v, want %q", after, got, want)
		}
	}
}
