package config

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
)

// Metrics say whether the file as it is now is in force. A nil *Metrics says nothing.
type Metrics struct {
	successful prometheus.Gauge
	seconds    prometheus.Gauge
	mode       *prometheus.GaugeVec
}

// NewMetrics returns Metrics that are registered with r.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	var t prom.Table
	m := &Metrics{
		successful: t.Gauge("mirrorset_guard_config_last_reload_successful",
			"Whether the configuration file as it is now is in force (1), or an earlier one is because it has mistakes or cannot be read (0).").WithLabelValues(),
		seconds: t.Gauge("mirrorset_guard_config_last_reload_success_timestamp_seconds", "When a configuration was last put in force.").WithLabelValues(),
		mode:    t.Gauge("mirrorset_guard_config_mode", "1 for the mode in force (enforce, warn, audit), 0 for the others.", "mode"),
	}
	return m, t.Register(r, "config")
}

func (m *Metrics) reloaded(err error) {
	if m != nil {
		m.successful.Set(prom.Bool(err == nil))
	}
}

func (m *Metrics) accepted(mode v1alpha1.Mode) {
	if m == nil {
		return
	}
	m.seconds.SetToCurrentTime()
	for _, name := range mode.Values() {
		m.mode.WithLabelValues(name).Set(0)
	}
	m.mode.WithLabelValues(string(mode)).Set(1)
}
