package readiness

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/review/pins"
)

// Wants returns which images of the release the nodes of each pool are to hold before the update. That is all but those of
// the nodes' system, which MCO's daemon does not take from where CRI-O keeps pinned images. Which component
// runs in which pool is for operators to decide, and not written in a release.
func (r *Readiness) Wants(pools []*mcfgv1.MachineConfigPool) []pins.Want {
	var wants []pins.Want
	for _, pool := range pools {
		for _, i := range r.Images {
			if !i.OS {
				wants = append(wants, pins.Want{Pool: pool.Name, Image: i.Ref, By: i.Title()})
			}
		}
	}
	return wants
}
