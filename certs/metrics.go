package certs

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/register"
)

// A Collector exports the state of the serving certificate to Prometheus.
type Collector struct {
	Reloader     *Reloader
	Verification *Verification
}

var (
	expiryDesc = prometheus.NewDesc("mirrorset_guard_certificate_expiry_timestamp_seconds",
		"When the serving certificate expires. With an expired one, the API server cannot call the webhook.", nil, nil)
	verifiedDesc = prometheus.NewDesc("mirrorset_guard_certificate_verified",
		"1 if the caBundle of each webhook that is installed verifies the serving certificate, 0 if not. Missing if that is not known.", nil, nil)
	reloadedDesc = prometheus.NewDesc("mirrorset_guard_certificate_last_reload_successful",
		"Whether the certificate in the mounted secret is in use (1), or an earlier one is because it cannot be used (0).", nil, nil)
)

// Describe implements prometheus.Collector.
func (Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{expiryDesc, verifiedDesc, reloadedDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c Collector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	gauge(expiryDesc, float64(c.Reloader.NotAfter().Unix()))
	gauge(reloadedDesc, register.Bool(c.Reloader.Err() == nil))
	if failures, known := c.Verification.Failures(); known {
		gauge(verifiedDesc, register.Bool(len(failures) == 0))
	}
}
