package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// setDepths sets the depth at which each place of p is looked up.
//
// For most images it is enough that a registry serves the manifest. Where more depends on it,
// the config that it names is looked up, too: for protected images, and where only mirrors are
// left. Blobs are looked up as the settings say.
//
// A fact that was found at one depth says nothing about another, as the two Locations
// differ.
func (p *Plan) setDepths() {
	p.read = p.readers()
	for k := range p.Reroutes {
		p.setDepth(&p.Reroutes[k])
	}
	p.order = p.settings.rank(p.Reroutes)
}

// comparePlatforms has the platforms of tags looked up as well, in a second step, and only where they may differ from
// those of the image that runs: see wantsPlatforms. Only a change has an old place to compare them with.
func (p *ChangePlan) comparePlatforms() {
	for k := range p.Reroutes {
		r := &p.Reroutes[k]
		r.platforms = r.Puller == mirrors.Nodes && !mirrors.ByDigest(r.Image.Ref) && !onlyHistory(r.Image)
	}
}

// setDepth is setDepths for one image. An image that is not rerouted is looked up as by the standing
// verification, whose answers then serve.
func (p *Plan) setDepth(r *Reroute) {
	if depth := p.settings.depthOf(r); depth > mirrors.DepthExists {
		r.Before, r.After = atDepth(r.Before, depth), atDepth(r.After, depth)
		for _, other := range r.otherRoutes() {
			*other = atDepth(*other, depth)
		}
	}
	r.site, r.readers = p.site, p.read
	r.onePlatform = len(p.site.platforms) == 1
	r.protected = p.settings.IsProtected(r.Image)
}

// depthOf keeps the lookups of images that only history names shallow: their findings can
// at most warn.
func (s Settings) depthOf(r *Reroute) mirrors.Depth {
	protected := s.IsProtected(r.Image)
	switch {
	case onlyHistory(r.Image):
		return mirrors.DepthExists
	case s.Blobs == BlobsOfAll, s.Blobs == BlobsOfProtected && protected:
		return mirrors.DepthBlobs
	case protected, r.pinned, r.After.SourceBlocked(), r.wantsToday(): // of a pin, the size counts
		return mirrors.DepthManifest
	default:
		return mirrors.DepthExists
	}
}

// atDepth returns r with this depth everywhere.
func atDepth(r mirrors.Route, depth mirrors.Depth) mirrors.Route {
	r.Sources = slices.Clone(r.Sources) // routes share them
	for i := range r.Sources {
		r.Sources[i].Depth = depth
	}
	return r
}

// wantsPlatforms reports whether f, which says that the image is there, leaves open
// whether nodes of every platform get one. A digest names the same index wherever it is
// served. Under a tag, a copy of one platform may stand for an index of several. In a
// cluster of one platform it does not matter as long as the digest is that which runs.
func (r *Reroute) wantsPlatforms(l mirrors.Location, f *Fact) bool {
	if !r.platforms || l.Depth > mirrors.DepthExists || f.Presence != Present {
		return false
	}
	return !r.onePlatform || !r.runs(f.Digest)
}

// wantsManifest reports whether f, which says that the image is at s, leaves questions about its manifest open:
// for which platforms it is, or where signatures of its parts would be, whatever it is pulled by.
func (r *Reroute) wantsManifest(s *mirrors.PullSource, f *Fact) bool {
	if r.wantsPlatforms(s.Location, f) {
		return true
	}
	_, known := f.Runs()
	return f.Presence == Present && !known && s.WantsSignatures()
}

// runs reports whether a node said that it runs the image with this digest.
func (r *Reroute) runs(digest string) bool {
	return digest != "" && slices.ContainsFunc(r.Image.Consumers, func(c Consumer) bool {
		return c.Use == Running && c.Digest == digest
	})
}

// deeper returns the location that the second step looks up instead of l.
func deeper(l mirrors.Location) mirrors.Location {
	l.Depth = max(l.Depth, mirrors.DepthManifest)
	return l
}
