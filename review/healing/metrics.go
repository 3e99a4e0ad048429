package healing

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/register"
)

// metrics tell what is copied back. No label holds anything that a user or a stranger may choose.
type metrics struct {
	enabled  prometheus.Gauge
	images   *prometheus.CounterVec
	bytes    prometheus.Counter
	requests prometheus.Counter
	// Of the replica that copies; absent elsewhere.
	waiting *prometheus.GaugeVec
	stopped *prometheus.GaugeVec
	used    *prometheus.GaugeVec
}

func newMetrics() *metrics {
	m := &metrics{
		enabled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mirrorset_guard_heal_enabled",
			Help: "1 if the configuration asks for what mirrors have lost to be copied back, else 0.",
		}),
		images: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mirrorset_guard_heal_images_total",
			Help: "Images that mirrors had lost, by what became of the attempt to copy them back (copied, failed).",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mirrorset_guard_heal_sent_bytes_total",
			Help: "Bytes sent to mirrors to copy back what they had lost, manifests and failed attempts included.",
		}),
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mirrorset_guard_heal_requests_total",
			Help: "Requests made to registries to copy back what mirrors had lost.",
		}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mirrorset_guard_heal_waiting_images",
			Help: "Images that are lost and not copied back at the moment, by what is in the way (budget, failed, obstacle, origin, settling, signature, stopped, tag, unseen, unusable). Only of the replica that copies.",
		}, []string{"reason"}),
		stopped: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mirrorset_guard_heal_stopped_registries",
			Help: "Registries to which nothing more is copied back, as they lost the same image twice. Only of the replica that copies.",
		}, nil),
		used: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mirrorset_guard_heal_budget_used_ratio",
			Help: "Part of the budget of an hour that is spent or set aside, by what is limited (bytes, requests). Only of the replica that copies.",
		}, []string{"limit"}),
	}
	for _, result := range []string{Copied, Failed} {
		m.images.WithLabelValues(result)
	}
	return m
}

// register registers the metrics with r, if there is one.
func (m *metrics) register(r prometheus.Registerer) error {
	return register.Metrics(r, "heal", m.enabled, m.images, m.bytes, m.requests, m.waiting, m.stopped, m.used)
}

func (m *metrics) configured(s Settings) { m.enabled.Set(register.Bool(s.Enabled)) }

func (m *metrics) spends(bytes, requests int64) {
	m.bytes.Add(float64(bytes))
	m.requests.Add(float64(requests))
}

func (m *metrics) waits(counts map[reason]int) {
	for _, why := range reasons {
		m.waiting.WithLabelValues(string(why)).Set(float64(counts[why]))
	}
}

func (m *metrics) state(s *state, now time.Time, limit Limit) {
	m.stopped.WithLabelValues().Set(float64(len(s.Stopped)))
	used := s.Spent.used(now)
	m.used.WithLabelValues("bytes").Set(share(used.Bytes, limit.Bytes))
	m.used.WithLabelValues("requests").Set(share(used.Requests, limit.Requests))
}

func share(used, limit int64) float64 { return float64(used) / float64(max(limit, 1)) }

// nothing says that nothing waits and nothing was spent.
func (m *metrics) nothing() {
	m.waits(nil)
	m.state(&state{}, time.Time{}, Limit{})
}

// idle removes what nothing would update.
func (m *metrics) idle() {
	m.waiting.Reset()
	m.stopped.Reset()
	m.used.Reset()
}
