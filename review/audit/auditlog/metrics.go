package auditlog

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
	"github.com/mirrorset-guard/mirrorset-guard/internal/queued"
)

type metrics struct {
	lines *prometheus.CounterVec
	age   prometheus.GaugeFunc
}

func newMetrics(q *queued.Queue, r prometheus.Registerer) (*metrics, error) {
	var t prom.Table
	m := &metrics{
		lines: t.Counter("mirrorset_guard_audit_records_total",
			"Audit records by result (written, lost). Lost ones found no room in the queue, as records could not be written.", "result"),
		age: t.Func("mirrorset_guard_audit_oldest_queued_seconds",
			"How long the oldest audit record has been waiting to be written; 0 if none is. It grows where writing fails or is blocked.",
			func() float64 { return q.Age().Seconds() }),
	}
	for _, result := range []string{"written", "lost"} {
		m.lines.WithLabelValues(result) // so that an increase from nothing is an increase
	}
	return m, t.Register(r, "auditlog")
}
