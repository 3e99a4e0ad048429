package policy

import "github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"

// shallow returns the plan of c by which a place is only asked whether the image is there,
// whoever depends on it, so that tables can name places by their references alone.
func shallow(c Change, images []Image, s Settings) Plan {
	return shallower(newPlan(c, Cluster{Images: NewImages(images...)}, s))
}

func shallower(p Plan) Plan {
	for k := range p.Reroutes {
		i := &p.Reroutes[k]
		i.Before, i.After = atDepth(i.Before, mirrors.DepthExists), atDepth(i.After, mirrors.DepthExists)
		i.platforms, i.onePlatform, i.site = false, false, nil
	}
	return p
}
