package rules

import (
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// BlobsMissing: a place on the new route serves the manifest of the image but lacks its
// config or layers, as after an interrupted copy, or when a registry's disk was cleaned by
// hand. containers/image chooses a place by the manifest (newImageSource in docker/docker_image_src.go)
// and fails at the first missing blob (go.podman.io/image 5.39.3 is the first version that tries the
// next place), so a later place that holds the image does not help. An index where only a part lacks blobs is for
// PlatformMissing.
func blobsMissing(a *evidence.Case) (policy.Finding, bool) {
	ended, severity := a.EndedAt()
	for _, at := range ended {
		if at.Fact.Presence == policy.Incomplete {
			return policy.Finding{
				Severity: severity,
				Reason:   "a place on its new route lacks some of its blobs, and nodes would stop there",
				Detail:   a.Places(),
				Copy:     copyTo(a, at.Location),
			}, true
		}
	}
	return policy.Finding{}, false
}
