package webhook

import (
	"context"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// metrics count answers. No label holds anything that a user or a stranger
// may choose, which bounds the number of series. A nil *metrics counts
// nothing.
type metrics struct {
	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	deadline *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	override *prometheus.CounterVec
	table    prom.Table
}

// durationBuckets reach from an answer that needed no registry (the aim is 20 ms)
// to the longest that the API server waits.
var durationBuckets = []float64{.005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30}

// deadlineBuckets are close where it matters: 1 is when the review has run out of time.
var deadlineBuckets = []float64{.1, .25, .5, .75, .9, .95, 1}

func newMetrics() *metrics {
	var t prom.Table
	m := &metrics{
		reviews: t.Counter("mirrorset_guard_reviews_total",
			"Admission requests by kind, operation and verdict (allowed, denied, waived, overridden, none, malformed, skipped); waived was denied by the rules and admitted because of the mode.",
			"kind", "operation", "verdict"),
		duration: t.Histogram("mirrorset_guard_review_duration_seconds", "Time from an admission request to its answer, by verdict.", durationBuckets, "verdict"),
		deadline: t.Histogram("mirrorset_guard_review_deadline_ratio",
			"Time that a review took, as a part of the time it had until the API server would have stopped waiting; 1 if it ran out of time.", deadlineBuckets),
		refused: t.Counter("mirrorset_guard_requests_refused_total", "HTTP requests that got no admission response, by reason.", "reason"),
		override: t.Counter("mirrorset_guard_overrides_total",
			"Refused changes with the annotation "+OverrideAnnotation+" by outcome (used once it is in force, unconfirmed if it never is, no_reason, wrong_code, forbidden, unknown), dry runs excepted.", "result"),
	}
	m.table = t
	m.initialise()
	return m
}

// initialise makes the series that alerts and dashboards ask for, at 0: a counter that comes
// into being with its first event does not increase by it.
func (m *metrics) initialise() {
	m.deadline.WithLabelValues()
	for _, v := range verdicts {
		m.duration.WithLabelValues(string(v))
		for _, kind := range kinds {
			for _, operation := range reviewed {
				m.reviews.WithLabelValues(kind, string(operation), string(v))
			}
		}
	}
	for _, reason := range refusals {
		m.refused.WithLabelValues(reason)
	}
	for _, result := range overrideResults {
		m.override.WithLabelValues(string(result))
	}
}

// register registers the metrics with r, if there is one.
func (m *metrics) register(r prometheus.Registerer) error {
	return m.table.Register(r, "webhook")
}

// answered counts a, which the work that began at start came to.
func (m *metrics) answered(ctx context.Context, a answer, start time.Time, took time.Duration) {
	if m == nil {
		return
	}
	m.reviews.WithLabelValues(a.request.kindLabel(), a.request.operationLabel(), string(a.verdict)).Inc()
	m.duration.WithLabelValues(string(a.verdict)).Observe(took.Seconds())
	if a.override != nil && a.override.result != overrideUsed && !a.request.isDryRun() {
		m.countOverride(a.override.result)
	}
	if deadline, limited := ctx.Deadline(); limited && a.verdict != skipped && a.verdict != malformed {
		m.deadline.WithLabelValues().Observe(a.usedUp(deadline.Sub(start), took))
	}
}

// countOverride counts the outcome of an override. One that was used counts once it is in force.
func (m *metrics) countOverride(result overrideResult) {
	if m != nil {
		m.override.WithLabelValues(string(result)).Inc()
	}
}

// usedUp returns the part of its time that the review took which led to a, at most 1. That time is what there was to
// the deadline, less the time kept back for deciding, when no registry is waited for. As a review of many images keeps
// more back, one that left images to be looked up took all it had, whenever it ended.
func (a answer) usedUp(had, took time.Duration) float64 {
	had -= review.KeptBack(decidingTime, had)
	if a.record.Verdict.Counts.Pending > 0 || took >= had {
		return 1
	}
	return took.Seconds() / had.Seconds()
}

func (m *metrics) refusedRequest(reason string) {
	if m != nil {
		m.refused.WithLabelValues(reason).Inc()
	}
}

// other labels what the webhook is not registered for: nothing keeps a stranger
// in the cluster's network from posting it.
const other = "other"

func (r *request) kindLabel() string {
	if _, err := mirrors.New(r.kind()); err != nil {
		return other
	}
	return r.Kind.Kind
}

// kinds are those that the webhooks of the manifests match.
var kinds = []string{
	mirrors.TagMirrorSetGVK.Kind, mirrors.DigestMirrorSetGVK.Kind, mirrors.ContentPolicyGVK.Kind,
	mirrors.ImageConfigGVK.Kind, mirrors.ClusterPolicyGVK.Kind, mirrors.NamespacePolicyGVK.Kind, mirrors.PinnedSetGVK.Kind,
}

// reviewed are the operations that the webhooks of the manifests match.
var reviewed = []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete}

func (r *request) operationLabel() string {
	if !slices.Contains(reviewed, r.Operation) {
		return other
	}
	return string(r.Operation)
}
