package serving

import "github.com/mirrorset-guard/mirrorset-guard/internal/prom"

// Metrics returns that of the registration of the webhooks.
func (f *Follower) Metrics() prom.Sources {
	return prom.Sources{
		prom.Gauge("mirrorset_guard_registration_differences",
			"Number of points in which the webhook configuration is weaker than the one that was installed, or refuses what that one does not: changes may have passed without a review. Missing while it cannot be read.",
			func(give prom.Give) {
				if registration, _ := f.Registration(); registration.Known && !f.webhooks.Status().Stale {
					give(float64(len(registration.Differences)))
				}
			}),
	}
}
