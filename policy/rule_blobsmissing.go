package policy

// BlobsMissing: a place on the new route serves the manifest of the image and lacks its
// config or layers, as after a copy that was cut short, or a registry's disk that was
// cleaned by hand. containers/image chooses a place by the manifest and fails at the
// first blob that is not there (semantics §2; go.podman.io/image 5.39.3 is the first to
// go on), so that a later place that holds the image does not help. An index of which
// only a part is so is a matter of PlatformMissing.
func blobsMissing(a *assessment) (Finding, bool) {
	ended, severity := a.endedAt()
	for _, l := range ended {
		if a.facts.at(l).Presence == Incomplete {
			return Finding{
				Severity: severity,
				Reason:   "a place on its new route lacks some of its blobs, and nodes would stop there",
				Detail:   a.places(),
				Remedy:   a.copyTo(l),
			}, true
		}
	}
	return Finding{}, false
}
