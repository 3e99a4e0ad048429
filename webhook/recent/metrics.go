package recent

import "github.com/prometheus/client_golang/prometheus"

// A Collector exports to Prometheus whether replicas share their recent edits.
type Collector struct{ Edits *Edits }

var sharedDesc = prometheus.NewDesc("mirrorset_guard_recent_edits_shared",
	"1 if replicas share which changes they admit, so that two made at the same moment are judged together; 0 if the Lease for it cannot be used. Missing if that is not known yet, or this process is the only one.", nil, nil)

// Describe implements prometheus.Collector.
func (Collector) Describe(descs chan<- *prometheus.Desc) { descs <- sharedDesc }

// Collect implements prometheus.Collector.
func (c Collector) Collect(metrics chan<- prometheus.Metric) {
	shared, known := c.Edits.areShared()
	if !known {
		return
	}
	value := 0.0
	if shared {
		value = 1
	}
	metrics <- prometheus.MustNewConstMetric(sharedDesc, prometheus.GaugeValue, value)
}

// areShared reports whether the list was shared when that was tried last, which Run does now
// and then, and whether it was tried.
func (e *Edits) areShared() (shared, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken == nil, e.tried
}
