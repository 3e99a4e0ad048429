package policy

import (
	"fmt"
	"slices"
)

// TagDrift: the tag at the mirror is another image than the one that runs. The
// pull works, and the next pod runs something else than the last. The digest that
// runs is what the node reported (status imageID); it may be that of an index or
// of the part of it for the node's architecture, so both are compared.
func tagDrift(v *view) (Finding, bool) {
	if isDigest(v.Image.Ref) {
		return Finding{}, false
	}
	place, fact, ok := Served(v.After, v.facts)
	running := v.running()
	if !ok || fact.Digest == "" || len(running) == 0 || fact.unread() {
		return Finding{}, false
	}
	for _, digest := range running {
		if digest == fact.Digest || slices.Contains(fact.Children, digest) {
			return Finding{}, false
		}
	}
	return Finding{
		Severity: Warn,
		Reason:   "the tag is another image there than the one that runs",
		Detail:   []string{fmt.Sprintf("%s: %s; running: %s", place.Ref, shortDigest(fact.Digest), shortDigest(running[0]))},
		Remedy:   v.copyTo(place),
	}, true
}

// unread reports whether f is about an index whose children nobody has read.
func (f Fact) unread() bool {
	return len(f.Children) == 0 && slices.Contains(indexTypes, f.MediaType)
}

// indexTypes are the media types of lists of manifests.
var indexTypes = []string{
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
}

// running returns the digests that run under the reference, sorted.
func (v *view) running() []string {
	var digests []string
	for _, u := range v.Image.Consumers {
		if u.Use == Running && u.Digest != "" {
			digests = append(digests, u.Digest)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}
