package serving

import (
	"crypto/tls"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
)

// Metrics returns those of the TLS profile and of the registration of the webhooks.
func (f *Follower) Metrics() prom.Sources {
	return prom.Sources{
		prom.Gauge("mirrorset_guard_tls_profile_info",
			"1 for what is offered to TLS clients: the profile that is followed (Old, Intermediate, Modern, Custom), Default if none is, Unread until that is known; and the least version.",
			func(give prom.Give) { p := f.Profile(); give(1, p.Name, tls.VersionName(p.MinVersion)) }, "profile", "min_version"),
		prom.Gauge("mirrorset_guard_tls_profile_problems",
			"Parts of the cluster's TLS profile that are not followed: unknown values, and lists of which nothing is left.",
			func(give prom.Give) { give(float64(len(f.Profile().Problems))) }),
		prom.Gauge("mirrorset_guard_tls_profile_ignored_names",
			"Ciphers and groups of the cluster's TLS profile that are left out, as they are not known.",
			func(give prom.Give) { give(float64(len(f.Profile().Ignored))) }),
		prom.Gauge("mirrorset_guard_registration_differences",
			"Number of points in which the webhook configuration is weaker than the one that was installed, or refuses what that one does not: changes may have passed without a review. Missing while it cannot be read.",
			func(give prom.Give) {
				if registration, _ := f.Registration(); registration.Known && !f.webhooks.Status().Stale {
					give(float64(len(registration.Differences)))
				}
			}),
	}
}
