package certs

import "github.com/mirrorset-guard/mirrorset-guard/internal/prom"

// Metrics returns those of the serving certificate.
func Metrics(reloader *Reloader, v *Verification) prom.Sources {
	return prom.Sources{
		prom.Gauge("mirrorset_guard_certificate_expiry_timestamp_seconds",
			"When the serving certificate expires. With an expired one, the API server cannot call the webhook.",
			func(give prom.Give) { give(float64(reloader.NotAfter().Unix())) }),
		prom.Gauge("mirrorset_guard_certificate_verified",
			"1 if the caBundle of each webhook that is installed verifies the serving certificate, 0 if not. Missing if that is not known.",
			func(give prom.Give) {
				if failures, known := v.Failures(); known {
					give(prom.Bool(len(failures) == 0))
				}
			}),
		prom.Gauge("mirrorset_guard_certificate_last_reload_successful",
			"Whether the certificate in the mounted secret is in use (1), or an earlier one is because it cannot be used (0).",
			func(give prom.Give) { give(prom.Bool(reloader.Err() == nil)) }),
	}
}
