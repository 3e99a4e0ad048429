package whatif

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// nearRepositories looks for what was meant by the repositories of a list or a mapping.
func nearRepositories[V any](of map[string]V) *plan.NearMisses {
	near := &plan.NearMisses{}
	for _, repository := range slices.Sorted(maps.Keys(of)) {
		near.Want(repository, false)
	}
	return near
}

// lookAtPlace looks at a place that nodes ask.
func lookAtPlace(near *plan.NearMisses, l mirrors.Location) {
	repository, _ := split(l)
	near.Look(repository, func() bool { return true })
}

// maxMeant is how many names are told that may have been meant.
const maxMeant = 3

// meant returns what near has found for the repositories of a list or a mapping, "" for nothing.
func meant[V any](near *plan.NearMisses, of map[string]V) string {
	var names []string
	for _, repository := range slices.Sorted(maps.Keys(of)) {
		for _, used := range near.Of(repository) {
			names = append(names, fmt.Sprintf("%s (not %s)", used, repository))
		}
		if len(names) >= maxMeant {
			break
		}
	}
	return text.Names(names, maxMeant)
}

// Meant returns where nodes miss images of a review while m copies to repositories with the same last names, "" for nowhere.
func (m *Mapping) Meant(r *review.Record) string {
	near := nearRepositories(m.to)
	for i := range r.Plan.Reroutes {
		for _, l := range r.Plan.Reroutes[i].After.Open() {
			if r.Facts.At(l).Presence == policy.Absent {
				lookAtPlace(near, l)
			}
		}
	}
	return meant(near, m.to)
}
