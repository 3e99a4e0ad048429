package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// shallow returns the plan of c by which a place is only asked whether the image is there,
// whoever depends on it, so that tables can name places by their references alone.
func shallow(c Change, images []Image, s Settings) ChangePlan {
	return shallower(newPlan(c, Cluster{Images: NewImages(images...)}, s))
}

func (p Plan) core() Plan { return p }

// shallower is shallow for a plan of any kind.
func shallower[P interface{ core() Plan }](p P) P {
	reroutes := p.core().Reroutes
	for k := range reroutes {
		i := &reroutes[k]
		i.Before, i.After = atDepth(i.Before, mirrors.DepthExists), atDepth(i.After, mirrors.DepthExists)
		i.platforms, i.onePlatform, i.site = false, false, nil
	}
	return p
}
