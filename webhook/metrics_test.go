package webhook

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/manifests"
)

// TestSeriesBeforeTheFirstEvent: a counter that comes into being with its first event does not
// increase by it, and an alert would miss that.
func TestSeriesBeforeTheFirstEvent(t *testing.T) {
	registry := prometheus.NewRegistry()
	muxFor(t, Options{Reviewer: &records{}, Metrics: registry})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		got[f.GetName()] = len(f.GetMetric())
	}
	for name, want := range map[string]int{
		"mirrorset_guard_reviews_total":           len(kinds) * len(reviewed) * len(verdicts),
		"mirrorset_guard_review_duration_seconds": len(verdicts),
		"mirrorset_guard_review_deadline_ratio":   1,
		"mirrorset_guard_requests_refused_total":  len(refusals),
	} {
		if got[name] != want {
			t.Errorf("%s has %d series, want %d", name, got[name], want)
		}
	}
}

// TestSeriesAreThoseOfTheManifests: the series that exist from the beginning are those of what
// API servers send.
func TestSeriesAreThoseOfTheManifests(t *testing.T) {
	config, err := manifests.WebhookConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	var operations []admissionv1.Operation
	for _, hook := range config.Webhooks {
		for _, rule := range hook.Rules {
			for _, o := range rule.Operations {
				operations = append(operations, admissionv1.Operation(o))
			}
		}
	}
	slices.Sort(operations)
	if got := slices.Compact(operations); !slices.Equal(got, slices.Sorted(slices.Values(reviewed))) {
		t.Errorf("the webhooks match %v, the series are those of %v", got, reviewed)
	}
}

// TestDeadlineRatio: 1 is a review that ran out of time, whatever it took after that.
func TestDeadlineRatio(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		verdict verdict
		limit   time.Duration // 0 for none
		took    time.Duration
		pending int     // images that were left to be looked up
		want    float64 // -1 for nothing
	}{
		{"quick", allowed, 10*time.Second + decidingTime, 100 * time.Millisecond, 0, .01},
		{"close", denied, 10*time.Second + decidingTime, 9500 * time.Millisecond, 0, .95},
		{"as long as it had", none, 10*time.Second + decidingTime, 10 * time.Second, 0, 1},
		{"too late", none, 10 * time.Second, 12 * time.Second, 0, 1},
		{"half of a short time", allowed, decidingTime, decidingTime / 4, 0, .5},
		{"much time kept back", denied, 10*time.Second + decidingTime, 3 * time.Second, 1, 1},
		{"no deadline", allowed, 0, time.Second, 0, -1},
		{"nothing to review", skipped, 10 * time.Second, time.Second, 0, -1},
		{"nothing that can be reviewed", malformed, 10 * time.Second, time.Second, 0, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, start := t.Context(), time.Now()
			if tt.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, start.Add(tt.limit))
				defer cancel()
			}
			m, registry := newMetrics(), prometheus.NewRegistry()
			registry.MustRegister(m.deadline)
			d := answer{request: new(request), verdict: tt.verdict}
			d.record.Verdict.Counts.Pending = tt.pending
			m.answered(ctx, d, start, tt.took)
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			h := families[0].GetMetric()[0].GetHistogram()
			got := h.GetSampleSum()
			if h.GetSampleCount() == 0 {
				got = -1
			}
			if got != tt.want {
				t.Errorf("%s: got %v, want %v", tt.reason, got, tt.want)
			}
		})
	}
}
