// Package mirrors says what a node does with an image reference: which registries it asks,
// and in what order.
//
// It reproduces what the Machine Config Operator (MCO) writes to registries.conf and what
// CRI-O reads back from it, by calling the same code: runtime-utils generates the
// configuration, containers/image rewrites the references. Private code of upstream is restated here,
// and held to it by differential tests:
//
//   - of MCO: the validation (validate.go), the effect of the registry lists
//     (lists.go), contradictions of image policies (imagepolicy.go, policymirrors.go) and the
//     files made of them (policyfile.go, attachments.go), the size of a MachineConfig
//     (size.go), the files (rendered.go)
//   - of containers/image: which entry covers a reference (index.go) and which requirements
//     (byscope.go), how drop-ins are merged (files.go, attachments.go), and a short way for plain
//     references (plain.go, table.go)
//
// The package is pure and has no opinion on whether an answer is a good one;
// that is package policy.
//
//	table, err := mirrors.Resolve(set)                // err: MCO would apply nothing
//	route, err := table.Route("nginx:1.27", "default") // err: no node could parse that
package mirrors

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
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

// A Depth is the part of an image that is looked up at a Location. Each includes those before it.
type Depth uint8

const (
	// DepthExists asks for the manifest as a node does, and compares it with its digest. The Docker
	// Hub, which counts that as a pull, is asked whether it has it.
	DepthExists Depth = iota
	// DepthManifest asks the Docker Hub, too, as a node does, and determines the platforms that the
	// manifest is for, which takes the config that it names.
	DepthManifest
	// DepthBlobs also asks whether the config and the layers are there.
	DepthBlobs
	// DepthSignatures is for Locations that Signatures returns: it reads the signatures there.
	DepthSignatures
	// DepthReferrers asks whether something that refers to the manifest, by the referrers API or
	// a tag of its own, is a signature in a form that nodes do not know.
	DepthReferrers
)

// String implements fmt.Stringer.
func (d Depth) String() string {
	return [...]string{"exists", "manifest", "blobs", "signatures", "referrers"}[d]
}

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
	// Attachments is set where nodes look for signatures attached to the image there
	// (registries.d). They do so whether or not they require any, and a place that cannot be
	// read for them fails the pull.
	Attachments bool
	// BlockedBy is the scope of the entry that blocks, "" if it does not.
	BlockedBy string
	// Trust is what nodes require of the signatures; nil for nothing. It is the same for all
	// sources of a candidate.
	Trust *policyfile.Trust
	// Candidate counts the references that a short name may stand for, from 0. Each
	// is a pull of its own: the end of one is not that of the next.
	Candidate int
}

// maxTag is the longest that a tag may be (reference.TagRegexp).
const maxTag = 128

// Host returns the registry there, as written.
func (l Location) Host() string { return HostOf(l.Ref) }

// Repository returns the repository there, with its registry as written.
func (l Location) Repository() string { return RepositoryOf(l.Ref) }

// Bare returns l without what only lookups need.
func (l Location) Bare() Location { return Location{Ref: l.Ref, Insecure: l.Insecure} }

// Signatures returns where nodes look for the signatures of the manifest with a digest that they
// have got at l: under a tag in the same repository (containers/image docker/docker_client.go,
// sigstoreAttachmentTag). It returns false if there is no such tag.
func (l Location) Signatures(digest string) (Location, bool) {
	l.Depth = DepthSignatures
	return l.tagged(digest, ".sig")
}

// Keeping returns the tag that sync gives what it copies by its digest to the repository of l, as some registries
// delete what has none. It returns false if there is no such tag.
func (l Location) Keeping(digest string) (Location, bool) { return l.Bare().tagged(digest, ".image") }

// tagged returns the tag of a digest in the repository of l.
func (l Location) tagged(digest, suffix string) (Location, bool) {
	tag := strings.Replace(digest, ":", "-", 1) + suffix
	l.Ref = l.Repository() + ":" + tag
	return l, len(tag) <= maxTag
}

// Referrers returns where to look for what refers to the manifest with a digest at l.
func (l Location) Referrers(digest string) Location {
	l.Ref, l.Depth = l.Repository()+"@"+digest, DepthReferrers
	return l
}

// Tried reports whether a node asks there.
func (s PullSource) Tried() bool { return !s.Blocked && !s.Refused }

// WantsSignatures reports whether what signatures there are decides on the pull.
func (s PullSource) WantsSignatures() bool { return s.Attachments || s.Trust != nil }

// same reports whether a node does the same at both, whatever entry says so.
func (s PullSource) same(other PullSource) bool {
	return s.Location == other.Location && s.Mirror == other.Mirror && s.Blocked == other.Blocked && s.Refused == other.Refused &&
		s.Attachments == other.Attachments && s.Trust.Same(other.Trust)
}

// A Route is the way of a node to pull one reference.
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

// OnlyRelaxes reports whether r asks the same places as before in the same way, and requires no
// more of what they serve: a node that gets the image by before gets it by r.
func (r Route) OnlyRelaxes(before Route) bool {
	return r.Err == nil && before.Err == nil && r.Refused == "" && before.Refused == "" &&
		slices.EqualFunc(r.Sources, before.Sources, func(s, before PullSource) bool { return s.AsksNoMore(before) && s.samePlace(before) })
}

// SamePlaces reports whether a node asks the same places on both routes, whatever it requires
// of what they serve.
func (r Route) SamePlaces(other Route) bool {
	return r.Err == nil && other.Err == nil && slices.EqualFunc(r.Sources, other.Sources, PullSource.samePlace)
}

func (s PullSource) samePlace(other PullSource) bool {
	other.Trust, other.Attachments = s.Trust, s.Attachments
	return s.same(other)
}

// AsksNoMore reports whether nodes that accept an image from other's place by the requirements of other
// accept it from the same place by those of s, too.
func (s PullSource) AsksNoMore(other PullSource) bool {
	if s.Trust == nil {
		return !s.Attachments || other.Attachments
	}
	return s.Attachments == other.Attachments && s.Trust.IsMetBy(other.Trust)
}
