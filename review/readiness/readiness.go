package readiness

import (
	"slices"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
)

// A State says whether something is ready. The zero value is Unknown, and greater is better known.
type State int

const (
	// Unknown means that it could not be determined.
	Unknown State = iota
	// NotReady means that it is known to be missing, or to be refused.
	NotReady
	// Ready means that it is there for all nodes that need it.
	Ready
)

// String returns "UNKNOWN", "NOT READY" or "READY".
func (s State) String() string { return [...]string{"UNKNOWN", "NOT READY", "READY"}[s] }

// A Readiness says whether the nodes of a cluster could pull a release.
type Readiness struct {
	Choice target.Release
	// Asked is what --release may be given for the same release, and ClusterFlags are those by which a command was told of
	// the cluster, for the commands that it prints: " --from dump.yaml".
	Asked, ClusterFlags string
	// Image is the release image by digest, and Version that of its metadata; "" where it could not be
	// read.
	Image, Version string
	// ReadAt is the place from which its payload was read, for Platform where it is an index.
	ReadAt   mirrors.Location
	Platform string
	// Images are the release image and those of the payload, in the order in which an update needs them.
	Images []Image
	// Signature is about the release image's GPG signature, which CVO verifies first.
	Signature Signature
	// Problems are about the release as a whole: the configuration that it brings, nodes that lag behind.
	Problems []Problem
	// Judged is what the images were judged by, with the policies that the release brings; it has the copies that are missing.
	Judged review.Judged
	// Channel is that of the release's own minor version where the cluster follows none.
	Channel string
	// Architecture is policy.ReleaseArchitecture.
	Architecture string
	Notes        []string
	Took         time.Duration
}

// An Image is one of a release, with what nodes would meet.
type Image struct {
	release.Image
	// IsRelease is set for the release image itself.
	IsRelease bool
	State     State
	// At is the place from which nodes would take it, "" if there is none.
	At string
	// Findings say why it is not ready, or warn.
	Findings []policy.Finding
	// Required says whether a policy asks for a signature of it, now or once the release has brought
	// its own.
	Required bool
	// Signatures are those that nodes would look for at At, where Required is set.
	Signatures []evidence.SignatureFinding
	// Pools are those whose nodes take it as their system's image; none for other images.
	Pools []string

	// Planned is set once a plan has judged it.
	Planned bool
}

// Title is how an image is called in lists.
func (i Image) Title() string {
	if i.IsRelease {
		return "(release image)"
	}
	return i.Name
}

// A Signature is the release image's GPG signature.
type Signature struct {
	State  State
	Reason string
	Detail []string
	// Remedy is what to do about it; "" if nothing is known to help.
	Remedy string
}

// A Problem is a fault of the release as a whole.
type Problem struct {
	About  string // one of the constants below
	State  State  // NotReady or Unknown
	Reason string
	Detail []string
}

// The subjects of Problems.
const (
	AboutConfiguration = "the configuration"
	AboutImage         = "the release image"
)

// State is the verdict: known faults count before unknown states.
func (r *Readiness) State() State {
	states := append(r.wholeStates(), r.Signature.State)
	for _, i := range r.Images {
		states = append(states, i.State)
	}
	return worst(states)
}

// wholeStates are those of the release as a whole.
func (r *Readiness) wholeStates() []State {
	states := []State{Ready}
	if r.Version == "" {
		states = append(states, Unknown)
	}
	for _, p := range r.Problems {
		states = append(states, p.State)
	}
	return states
}

func worst(states []State) State {
	if slices.Contains(states, NotReady) {
		return NotReady
	}
	return slices.Min(states)
}

// Count returns how many images are in a state.
func (r *Readiness) Count(s State) int {
	n := 0
	for _, i := range r.Images {
		if i.State == s {
			n++
		}
	}
	return n
}
