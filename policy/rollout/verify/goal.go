package verify

import (
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Goal is the configuration that somebody waits for.
type Goal struct {
	// Pools are the names of the pools that count, none for all.
	Pools []string
	// Edit is a change that has to be in force and on every node of these pools; nil if all
	// the pools have to be updated, whatever to.
	Edit *mirrors.Edit
}

// counts reports whether a pool counts for g.
func (g Goal) counts(pool string) bool { return len(g.Pools) == 0 || slices.Contains(g.Pools, pool) }

// isOfAll reports whether every node counts, and not only those of pools.
func (g Goal) isOfAll() bool { return len(g.Pools) == 0 && g.Edit == nil }

// PinnedSets returns the names of the PinnedImageSets that g waits for.
func (g Goal) PinnedSets() []string {
	if g.Edit == nil {
		return nil
	}
	var names []string
	for _, o := range g.Edit.Objects() {
		if set, ok := o.(*mcfgv1.PinnedImageSet); ok {
			names = append(names, set.Name)
		}
	}
	return names
}

// OnlyPins reports whether g waits for PinnedImageSets and nothing else: how far a rollout is does not
// matter then.
func (g Goal) OnlyPins() bool {
	return g.Edit != nil && len(g.PinnedSets()) > 0 && len(g.PinnedSets()) == len(g.Edit.Objects())
}
