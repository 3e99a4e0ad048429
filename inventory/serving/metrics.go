package serving

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"
)

// A Collector exports the TLS profile and the registration of the webhooks to Prometheus.
type Collector struct{ Follower *Follower }

var (
	profileDesc = prometheus.NewDesc("mirrorset_guard_tls_profile_info",
		"1 for what is offered to TLS clients: the profile that is followed (Old, Intermediate, Modern, Custom), Default if none is, Unread until that is known; and the least version.",
		[]string{"profile", "min_version"}, nil)
	problemsDesc = prometheus.NewDesc("mirrorset_guard_tls_profile_problems",
		"Parts of the cluster's TLS profile that are not followed: unknown values, and lists of which nothing is left.", nil, nil)
	ignoredDesc = prometheus.NewDesc("mirrorset_guard_tls_profile_ignored_names",
		"Ciphers and groups of the cluster's TLS profile that are left out, as they are not known.", nil, nil)
	registrationDesc = prometheus.NewDesc("mirrorset_guard_registration_differences",
		"Number of points in which the webhook configuration is weaker than the one that was installed, or refuses what that one does not: changes may have passed without a review. Missing while it cannot be read.", nil, nil)
)

// Describe implements prometheus.Collector.
func (Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{profileDesc, problemsDesc, ignoredDesc, registrationDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c Collector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	p := c.Follower.Profile()
	gauge(profileDesc, 1, p.Name, tls.VersionName(p.MinVersion))
	gauge(problemsDesc, float64(len(p.Problems)))
	gauge(ignoredDesc, float64(len(p.Ignored)))
	if registration, _ := c.Follower.Registration(); registration.Known && !c.Follower.webhooks.Status().Stale {
		gauge(registrationDesc, float64(len(registration.Differences)))
	}
}
