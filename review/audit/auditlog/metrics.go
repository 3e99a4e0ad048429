package auditlog

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/queued"
	"github.com/mirrorset-guard/mirrorset-guard/internal/register"
)

type metrics struct {
	lines    *prometheus.CounterVec
	failures prometheus.Counter
	age      prometheus.GaugeFunc
}

func newMetrics(q *queued.Queue) *metrics {
	m := &metrics{
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mirrorset_guard_audit_records_total",
			Help: "Audit records by result (written, lost). Lost ones found no room in the queue, as records could not be written.",
		}, []string{"result"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mirrorset_guard_audit_write_failures_total",
			Help: "Attempts to write an audit record that failed and were repeated.",
		}),
		age: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mirrorset_guard_audit_oldest_queued_seconds",
			Help: "How long the oldest audit record has been waiting to be written; 0 if none is. It grows where writing fails or is blocked.",
		}, func() float64 { return q.Age().Seconds() }),
	}
	for _, result := range []string{"written", "lost"} {
		m.lines.WithLabelValues(result) // so that an increase from nothing is an increase
	}
	return m
}

// register registers the metrics with r, if there is one.
func (m *metrics) register(r prometheus.Registerer) error {
	return register.Metrics(r, "auditlog", m.lines, m.failures, m.age)
}
