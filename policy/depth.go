package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A BlobScope says of which images more is looked up than the manifest: the config and
// the layers. Registries do not take a manifest whose blobs they lack, so that only a
// copy that was damaged, or pruned, lacks some; and to ask costs as many requests more
// as images have layers of their own.
type BlobScope int

const (
	// BlobsOfProtected are those of images that protected namespaces use. It is the
	// default: those are few, and have most layers in common.
	BlobsOfProtected BlobScope = iota
	// BlobsOfAll are those of all images.
	BlobsOfAll
	// BlobsOfNone are none.
	BlobsOfNone
)

// setDepths sets the depth at which each place of p is looked up, given the platforms of
// the nodes ("linux/amd64"), none if they are not known.
//
// That a registry says it has a manifest is enough for most images. The manifest is read
// as a node reads it where more hangs on it: for protected images, and where only mirrors
// are left; a proxy that has lost what it once held says by HEAD that it is there, and so
// does a login page. The blobs are looked up as the settings say. Of a tag the platforms
// are looked up as well, in a second step and only where they may differ from those of
// the image that runs: see wantsPlatforms. In the standing verification there is no old
// place to compare them with.
//
// A fact that was found at one depth says nothing about another, as the two Locations
// differ.
func (p *Plan) setDepths(platforms []string) {
	for k := range p.Reroutes {
		r := &p.Reroutes[k]
		if depth := p.settings.depthOf(*r); depth > mirrors.DepthExists {
			r.Before, r.After = atDepth(r.Before, depth), atDepth(r.After, depth)
		}
		r.platforms = p.entries == nil && !mirrors.ByDigest(r.Image.Ref) && !onlyHistory(r.Image)
		r.onePlatform = len(platforms) == 1
	}
}

// depthOf leaves out what only history names: it can do no more than warn.
func (s Settings) depthOf(r Reroute) mirrors.Depth {
	protected := s.IsProtected(r.Image)
	switch {
	case onlyHistory(r.Image):
		return mirrors.DepthExists
	case s.Blobs == BlobsOfAll, s.Blobs == BlobsOfProtected && protected:
		return mirrors.DepthBlobs
	case protected, r.After.SourceBlocked():
		return mirrors.DepthManifest
	default:
		return mirrors.DepthExists
	}
}

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
func (r *Reroute) wantsPlatforms(l mirrors.Location, f Fact) bool {
	if !r.platforms || l.Depth > mirrors.DepthExists || f.Presence != Present {
		return false
	}
	return !r.onePlatform || !r.runs(f.Digest)
}

// runs reports whether a node said that it runs the image with this digest.
func (r *Reroute) runs(digest string) bool {
	return digest != "" && slices.ContainsFunc(r.Image.Consumers, func(c Consumer) bool {
		return c.Use == Running && c.Digest == digest
	})
}

// deeper returns l as the second step asks for it.
func deeper(l mirrors.Location) mirrors.Location {
	l.Depth = max(l.Depth, mirrors.DepthManifest)
	return l
}
