package certs

import "github.com/mirrorset-guard/mirrorset-guard/internal/register"

// Metrics returns those of the serving certificate.
func Metrics(reloader *Reloader, v *Verification) register.Sources {
	return register.Sources{
		register.Gauge("mirrorset_guard_certificate_expiry_timestamp_seconds",
			"When the serving certificate expires. With an expired one, the API server cannot call the webhook.",
			func(give register.Give) { give(float64(reloader.NotAfter().Unix())) }),
		register.Gauge("mirrorset_guard_certificate_verified",
			"1 if the caBundle of each webhook that is installed verifies the serving certificate, 0 if not. Missing if that is not known.",
			func(give register.Give) {
				if failures, known := v.Failures(); known {
					give(register.Bool(len(failures) == 0))
				}
			}),
		register.Gauge("mirrorset_guard_certificate_last_reload_successful",
			"Whether the certificate in the mounted secret is in use (1), or an earlier one is because it cannot be used (0).",
			func(give register.Give) { give(register.Bool(reloader.Err() == nil)) }),
	}
}
