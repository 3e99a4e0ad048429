// Package mirrors says what a node does with an image reference: which registries it asks,
// and in what order.
//
// It reproduces what the Machine Config Operator (MCO) writes to registries.conf and what
// CRI-O reads back from it, by calling the same code: runtime-utils generates the
// configuration, containers/image rewrites the references. What upstream keeps private is
// restated here, and held to it by differential tests:
//
//   - of MCO: the validation (validate.go), what becomes of the registry lists
//     (signature.go), what image policies contradict (imagepolicy.go, policymirrors.go),
//     what fits into a MachineConfig (size.go), the files (rendered.go)
//   - of containers/image: which entry covers a reference (index.go), how drop-ins are merged
//     (files.go), and a short way for plain references (plain.go)
//
// The package is pure and has no opinion on whether an answer is a good one;
// that is package policy.
//
//	table, err := mirrors.Resolve(set)     // err: MCO would apply nothing
//	route, err := table.Route("nginx:1.27") // err: no node could parse that
package mirrors

import (
	"slices"
)

// A Location is one place an image may be pulled from. It is comparable, and the
// key under which facts about that place are kept.
type Location struct {
	// Ref is a fully qualified reference with either a tag or a digest.
	Ref string
	// Insecure allows plain HTTP and skips the verification of certificates.
	Insecure bool
	// Depth is how much is to be known of the image there. Resolve leaves it at DepthExists.
	Depth Depth
	// ProposedTrust is set where the registry is to be asked with the CAs that a change
	// would make nodes trust, instead of those in force. Resolve leaves it unset.
	ProposedTrust bool
}

// A Depth says how much of an image is looked up at a Location. Each includes those before it.
type Depth uint8

const (
	// DepthExists asks whether the registry says that it holds the manifest: a HEAD request,
	// which registries answer from memory. A login page answers it, too.
	DepthExists Depth = iota
	// DepthManifest reads the manifest itself as a node does, compares it with its digest,
	// and determines the platforms it is for.
	DepthManifest
	// DepthBlobs also asks whether the config and the layers are there.
	DepthBlobs
)

// String implements fmt.Stringer.
func (d Depth) String() string { return [...]string{"exists", "manifest", "blobs"}[d] }

// A PullSource is one step of a Route.
type PullSource struct {
	Location
	// Mirror tells a mirror from the source that the reference names.
	Mirror bool
	// Blocked is set where the entry that covers this very location is blocked:
	// a node refuses it without asking, and goes on to the next.
	Blocked bool
	// Refused is set if the signature policy refuses the candidate.
	Refused bool
	// BlockedBy is the scope of the entry that blocks, "" if it does not.
	BlockedBy string
	// Candidate counts the references that a short name may stand for, from 0. Each
	// is a pull of its own: what ends one is not the end of the next.
	Candidate int
}

// Tried reports whether a node asks there.
func (s PullSource) Tried() bool { return !s.Blocked && !s.Refused }

// same reports whether a node does the same at both, whatever entry says so.
func (s PullSource) same(other PullSource) bool {
	return s.Location == other.Location && s.Mirror == other.Mirror && s.Blocked == other.Blocked && s.Refused == other.Refused
}

// A Route is what a node does to pull one reference.
type Route struct {
	// Sources are in the order in which they are tried. Blocked and refused ones are included.
	Sources []PullSource
	// Entry is the scope of the registries.conf entry that covers the reference,
	// "" if none does. For a short name it is that of its first candidate.
	Entry string
	// Err says why the route cannot be computed. It aborts the whole pull, so
	// that not even the source is asked: worse than an empty route.
	Err error
	// Refused says why nodes would not run the image, whichever place serves it: MCO writes
	// the allowed and the blocked registries to the signature policy too. "" if they
	// would.
	Refused string
}

// Open returns the locations a node really asks.
func (r Route) Open() []Location {
	open := make([]Location, 0, len(r.Sources))
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Tried() {
			open = append(open, s.Location)
		}
	}
	return open
}

// Mirrors returns the mirrors a node really asks, in order.
func (r Route) Mirrors() []Location {
	if len(r.Sources) < 2 {
		return nil // the source is there as well
	}
	open := make([]Location, 0, len(r.Sources)-1)
	for k := range r.Sources {
		if s := &r.Sources[k]; s.Mirror && s.Tried() {
			open = append(open, s.Location)
		}
	}
	return open
}

// SourceBlocked reports whether every place of the route that is not a mirror is
// blocked, so that only mirrors are left.
func (r Route) SourceBlocked() bool {
	for k := range r.Sources {
		if s := &r.Sources[k]; !s.Mirror && s.Tried() {
			return false
		}
	}
	return len(r.Sources) > 0
}

// Equal reports whether a node would do the same on both routes, whichever
// entries they come from.
func (r Route) Equal(other Route) bool {
	if (r.Err == nil) != (other.Err == nil) || (r.Refused == "") != (other.Refused == "") {
		return false
	}
	if r.Err != nil {
		return true // either way the pull fails before anything is asked
	}
	return slices.EqualFunc(r.Sources, other.Sources, PullSource.same)
}
