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

// WithBlobs returns p with the blobs wanted where the settings say so: at every place of
// the images that they mean. A fact that was found without looking for blobs answers no
// question about a place with them, as the two Locations differ.
func (p Plan) WithBlobs(s Settings) Plan {
	if s.Blobs == BlobsOfNone {
		return p
	}
	p.Impacts = slices.Clone(p.Impacts)
	for i, impact := range p.Impacts {
		if s.wantsBlobs(impact.Image) {
			p.Impacts[i].Before = withBlobs(impact.Before)
			p.Impacts[i].After = withBlobs(impact.After)
		}
	}
	return p
}

// wantsBlobs leaves out what only history names: it can do no more than warn.
func (s Settings) wantsBlobs(img Image) bool {
	return !onlyHistory(img) && (s.Blobs == BlobsOfAll || s.IsProtected(img))
}

func withBlobs(r mirrors.Route) mirrors.Route {
	r.Sources = slices.Clone(r.Sources) // routes share them
	for i := range r.Sources {
		r.Sources[i].Depth = mirrors.DepthBlobs
	}
	return r
}
