package recent

import (
	"fmt"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
)

// Metrics returns whether replicas share their recent edits, and how often the list was disturbed.
func (e *Edits) Metrics() prom.Sources {
	return prom.Sources{
		prom.Gauge("mirrorset_guard_recent_edits_shared",
			"1 if replicas share the changes that they admit, and so judge changes made at the same moment together; 0 if the Lease for it cannot be used. Missing if that is not known yet, or this process is the only one.",
			func(give prom.Give) {
				if shared, known := e.areShared(); known {
					give(prom.Bool(shared))
				}
			}),
		prom.Counter("mirrorset_guard_recent_edits_disturbed_total",
			"How often a program other than the guard wrote the Lease in which replicas share the changes that they admit, by what was done (deleted, emptied, garbage).",
			func(give prom.Give) {
				e.mu.Lock()
				defer e.mu.Unlock()
				for kind := range kindsOfTrouble {
					give(float64(e.trouble.counts[kind]), kind.String())
				}
			}, "what"),
	}
}

// areShared reports whether the list could be shared at the last attempt, which Run makes from time
// to time, and whether there was one.
func (e *Edits) areShared() (shared, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.link.broken() == nil, e.link.tried
}

// Notes say what keeps replicas from sharing their recent edits, and what disturbs it.
func (e *Edits) Notes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var notes []string
	if err := e.link.broken(); err != nil {
		notes = append(notes, fmt.Sprintf("changes made at the same moment through different replicas are not judged together (%v): apply the guard's manifests again", err))
	}
	if what := e.trouble.text(time.Now()); what != "" {
		notes = append(notes, what)
	}
	return notes
}
