package webhook

import (
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// metrics count decisions. No label holds anything that a user or a stranger
// may choose, so that the number of series is bounded. A nil *metrics counts
// nothing.
type metrics struct {
	reviews  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

// durationBuckets reach from an answer that needed no registry (the aim is 20 ms)
// to the longest that the API server waits.
var durationBuckets = []float64{.005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30}

func newMetrics() *metrics {
	return &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mirrorset_guard_reviews_total",
			Help: "Admission requests by kind, operation and verdict (allowed, denied, waived, none, malformed, skipped); waived was denied by the rules and admitted because of the mode.",
		}, []string{"kind", "operation", "verdict"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mirrorset_guard_review_duration_seconds",
			Help:    "Time from an admission request to its answer, by verdict.",
			Buckets: durationBuckets,
		}, []string{"verdict"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mirrorset_guard_requests_refused_total",
			Help: "HTTP requests that got no admission response, by reason.",
		}, []string{"reason"}),
	}
}

// register registers the metrics with r, if there is one.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	err := errors.Join(r.Register(m.reviews), r.Register(m.duration), r.Register(m.refused))
	if err != nil {
		return fmt.Errorf("webhook: registering metrics: %w", err)
	}
	return nil
}

func (m *metrics) decided(req admissionv1.AdmissionRequest, v verdict, took time.Duration) {
	if m == nil {
		return
	}
	m.reviews.WithLabelValues(kindLabel(req), operationLabel(req), string(v)).Inc()
	m.duration.WithLabelValues(string(v)).Observe(took.Seconds())
}

func (m *metrics) refusedRequest(reason string) {
	if m != nil {
		m.refused.WithLabelValues(reason).Inc()
	}
}

// other labels what the webhook is not registered for: nothing keeps a stranger
// in the cluster's network from posting it.
const other = "other"

func kindLabel(req admissionv1.AdmissionRequest) string {
	if _, err := mirrors.New(kindOf(req)); err != nil {
		return other
	}
	return req.Kind.Kind
}

var operations = []admissionv1.Operation{
	admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect,
}

func operationLabel(req admissionv1.AdmissionRequest) string {
	if !slices.Contains(operations, req.Operation) {
		return other
	}
	return string(req.Operation)
}
