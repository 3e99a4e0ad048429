package serving

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// unregistered says that nothing calls the guard.
func (f *Follower) unregistered() string {
	return "there is no validatingwebhookconfiguration/" + f.options.WebhookConfiguration + ", nor one of OLM"
}

// Notes lists what could not be read, and what of the TLS profile is not followed, each in one
// line.
func (f *Follower) Notes() []string {
	notes := f.noteOn(&f.apiServer, "the TLS security profile of the cluster is not followed")
	for _, problem := range f.Profile().Problems {
		notes = append(notes, f.apiServer.Name+": "+problem)
	}
	const consequence = "it is not known whether the API server accepts the serving certificate"
	notes = append(notes, f.noteOn(&f.webhooks, consequence)...)
	if status := f.webhooks.Status(); status.IsReadable() && f.Webhooks() == nil {
		notes = append(notes, f.unregistered()+": no change is reviewed")
	} else if registration, _ := f.Registration(); len(registration.Differences) > 0 {
		notes = append(notes, registration.String())
	}
	return notes
}

func (f *Follower) noteOn(s *follow.Source, consequence string) []string {
	switch status := s.Status(); {
	case status.IsForbidden():
		return []string{fmt.Sprintf("no permission to read %s: %s", status.Name, consequence)}
	case status.IsBlind():
		return []string{status.Name + " " + status.Staleness()}
	}
	return nil
}

// Metrics returns that of the registration of the webhooks.
func (f *Follower) Metrics() prom.Sources {
	return prom.Sources{
		prom.Gauge("mirrorset_guard_registration_differences",
			"Number of points in which the webhook configuration is weaker than the one that was installed, or refuses what that one does not: changes may have passed without a review. Missing while it cannot be read.",
			func(give prom.Give) {
				if registration, _ := f.Registration(); registration.Known && !f.webhooks.Status().IsBlind() {
					give(float64(len(registration.Differences)))
				}
			}),
	}
}
