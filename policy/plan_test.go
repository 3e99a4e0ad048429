package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// shallow returns the plan of c by which a place is only asked whether the image is there,
// whoever depends on it, so that tables can name places by their references alone.
func shallow(c Change, images []Image, s Settings) ChangePlan {
	return shallower(newPlan(c, Cluster{Images: NewImages(images...)}, s))
}

func planOf(p any) Plan {
	switch p := p.(type) {
	case ChangePlan:
		return p.Plan
	case StandingPlan:
		return p.Plan
	case DeletionPlan:
		return p.Plan
	default:
		return p.(Plan)
	}
}

// shallower is shallow for a plan of any kind.
func shallower[P any](p P) P {
	atDepth := func(r mirrors.Route) mirrors.Route {
		r.Sources = slices.Clone(r.Sources)
		for k := range r.Sources {
			r.Sources[k].Depth = mirrors.DepthExists
		}
		return r
	}
	reroutes := planOf(p).Reroutes
	for k := range reroutes {
		i := &reroutes[k]
		i.Before, i.After = atDepth(i.Before), atDepth(i.After)
		i.platforms, i.onePlatform, i.site = false, false, nil
	}
	return p
}
