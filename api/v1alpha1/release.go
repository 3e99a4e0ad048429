package v1alpha1

// A ReleaseReview says whether the nodes of a cluster could pull a release of OpenShift that it does not run yet (kind
// ReleaseReview).
type ReleaseReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Verdict is "READY", "NOT READY" or "UNKNOWN"; the exit code is 0, 1 or 2.
	Verdict string `json:"verdict"`
	// Summary counts the images, in a sentence.
	Summary string `json:"summary"`
	// Version is that of the release image's metadata, "" where it could not be read.
	Version string `json:"version"`
	// Image is the release image by digest, and Chosen says how it was found.
	Image  string `json:"image"`
	Chosen string `json:"chosen"`
	// ReadFrom is the place on its route from which the payload was read, "" if it was not; Platform is that of
	// the part of an index that was read.
	ReadFrom string `json:"readFrom,omitempty"`
	Platform string `json:"platform,omitempty"`
	// Counts are the numbers of images.
	Counts ReleaseCounts `json:"counts"`
	// Signature is about the release image's GPG signature, which CVO verifies.
	Signature ReleaseSignature `json:"signature"`
	// Problems are about the release as a whole.
	Problems []ReleaseProblem `json:"problems"`
	// Images are the release image and those of its payload, in the order in which an update needs them.
	Images []ReleaseImage `json:"images"`
	// Remedy is the one command that copies all that is missing, "" if nothing is to be copied.
	Remedy string `json:"remedy,omitempty"`
	// Risks are those that the update's graph names for this cluster.
	Risks []string `json:"risks"`
	// Unchecked says what was not looked at, and has to be known otherwise.
	Unchecked []string `json:"unchecked"`
	Notes     []string `json:"notes"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// ReleaseCounts are the numbers of images of a release in each state.
type ReleaseCounts struct {
	Images   int `json:"images"`
	Ready    int `json:"ready"`
	NotReady int `json:"notReady"`
	Unknown  int `json:"unknown"`
}

// A ReleaseSignature says whether the Cluster Version Operator would accept a release image.
type ReleaseSignature struct {
	// State is "READY", "NOT READY" or "UNKNOWN".
	State  string   `json:"state"`
	Reason string   `json:"reason"`
	Detail []string `json:"detail,omitempty"`
	Remedy string   `json:"remedy,omitempty"`
}

// A ReleaseProblem is a fault of a release as a whole.
type ReleaseProblem struct {
	// About is "the configuration" or "the release image".
	About string `json:"about"`
	// State is "NOT READY" or "UNKNOWN".
	State  string   `json:"state"`
	Reason string   `json:"reason"`
	Detail []string `json:"detail,omitempty"`
}

// A ReleaseImage is an image of a release.
type ReleaseImage struct {
	// Name is that of its tag in the release's image-references; "release" stands for the release image.
	Name  string `json:"name"`
	Image string `json:"image"`
	// RunLevel is the lowest of the manifests that name it; nil if none does.
	RunLevel *int `json:"runLevel,omitempty"`
	// Pools are those whose nodes take it as the image of their system.
	Pools []string `json:"pools,omitempty"`
	// State is "READY", "NOT READY" or "UNKNOWN".
	State string `json:"state"`
	// At is the place from which nodes would take it, "" if there is none.
	At string `json:"at,omitempty"`
	// SignatureRequired is set if a policy asks for a signature of it: one in force, or one that the release
	// brings.
	SignatureRequired bool        `json:"signatureRequired,omitempty"`
	Signatures        []Signature `json:"signatures,omitempty"`
	Findings          []Finding   `json:"findings,omitempty"`
}
