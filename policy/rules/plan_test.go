package rules

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// shallow returns the plan of c by which a place is only asked whether the image is there,
// whoever depends on it, so that tables can name places by their references alone.
func shallow(c policy.Change, images []policy.Image, s settings.Settings) plan.ChangePlan {
	return shallower(newPlan(c, plan.Cluster{Images: policy.NewImages(images...)}, s))
}

func planOf(p any) plan.Plan {
	switch p := p.(type) {
	case plan.ChangePlan:
		return p.Plan
	case plan.StandingPlan:
		return p.Plan
	case plan.DeletionPlan:
		return p.Plan
	default:
		return p.(plan.Plan)
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
		i.Platforms, i.OnePlatform, i.Site = false, false, nil
	}
	return p
}
