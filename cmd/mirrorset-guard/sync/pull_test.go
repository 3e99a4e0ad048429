package sync

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

const (
	indexType  = "application/vnd.oci.image.index.v1+json"
	imageType  = signer.MediaType
	dockerType = "application/vnd.docker.distribution.manifest.v2+json"
)

// A place is one where a node looks for an image.
type place struct {
	at         *front
	repository string
	looks      bool // for signatures (registries.d)
}

// A pull is that of a pod on a node of an architecture.
type pull struct {
	name, arch string
	version    string // "v1", or a digest
	route      []place
	// key is the one that the image has to be signed by, as this reference; "" for no policy.
	key       signer.Key
	reference string
	byDigest  bool
}

// A manifest is an index or an image, as far as a pull goes.
type manifest struct {
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

func (p place) manifest(t testing.TB, ref string) (reply, manifest) {
	t.Helper()
	found := p.at.get(t, "/v2/"+p.repository+"/manifests/"+ref)
	var m manifest
	if found.status == http.StatusOK {
		if err := json.Unmarshal(found.body, &m); err != nil {
			t.Fatal(err)
		}
	}
	return found, m
}

func (p place) holds(t testing.TB, blobs ...descriptor) bool {
	t.Helper()
	return !slices.ContainsFunc(blobs, func(d descriptor) bool {
		return p.at.get(t, "/v2/"+p.repository+"/blobs/"+d.Digest).status != http.StatusOK
	})
}

// works reports whether a node gets the image: from the first place that has its manifest, and from no other (test/truth has real pulls).
func (p *pull) works(t testing.TB, signatures map[string]signed) bool {
	t.Helper()
	for _, at := range p.route {
		if found, m := at.manifest(t, p.version); found.status == http.StatusOK {
			return p.runs(t, at, found, m, signatures)
		}
	}
	return false
}

func (p *pull) runs(t testing.TB, at place, found reply, m manifest, signatures map[string]signed) bool {
	t.Helper()
	if found.mediaType == indexType {
		chosen := slices.IndexFunc(m.Manifests, func(d descriptor) bool { return d.Platform.Architecture == p.arch })
		if chosen < 0 {
			return false
		}
		if found, m = at.manifest(t, m.Manifests[chosen].Digest); found.status != http.StatusOK {
			return false
		}
	}
	return at.holds(t, append(m.Layers, m.Config)...) && (!at.looks || p.accepts(t, at, digestOf(found.body), signatures))
}

// A signed is what a signature says.
type signed struct {
	by                signer.Key
	reference, digest string
}

// accepts reports whether a node goes on after it has looked for signatures of a manifest at a place.
func (p *pull) accepts(t testing.TB, at place, digest string, signatures map[string]signed) bool {
	t.Helper()
	found, m := at.manifest(t, signer.Tag(digest))
	switch {
	case found.status == http.StatusNotFound && !found.repository:
		return p.key == ""
	case found.status != http.StatusOK, found.mediaType != imageType, !at.holds(t, m.Layers...):
		return false
	}
	return p.key == "" || slices.ContainsFunc(m.Layers, func(l descriptor) bool {
		s := signatures[l.Annotations[signing.SignatureAnnotation]]
		return s.by == p.key && s.digest == digest && (s.reference == p.reference || p.byDigest && sameRepository(s.reference, p.reference))
	})
}
