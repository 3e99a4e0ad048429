package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// Presence is the result that a node would get at a location.
type Presence int

const (
	// Unknown means that the location was not looked up, or has not answered yet. It is the
	// zero value, so that a forgotten fact never reads as good news.
	Unknown Presence = iota
	// Present means that the location serves a manifest that answers the reference.
	Present
	// Absent means that the registry says it does not have the image.
	Absent
	// Denied means that the registry wants credentials that the nodes do not have.
	Denied
	// Unreachable means that there was no usable answer (refused, timed out, TLS,
	// DNS, 429, 5xx).
	Unreachable
	// Mismatch means that the registry answers, but not with that image: another digest,
	// or no manifest. A node that met it would stop there.
	Mismatch
	// Incomplete means that the registry serves the manifest but lacks blobs that it names.
	// A node that met it would stop there. Only Locations of DepthBlobs can be Incomplete,
	// and those of DepthManifest if the config is missing.
	Incomplete
	// Inconclusive means that the registry serves the manifest, and that it could not be
	// determined whether nodes would get the rest: a part of an index, blobs, or signatures. A
	// node that met it would either get all of it there or stop there.
	Inconclusive
	// Unsigned means that the registry serves the image, and that nodes would stop there, as a
	// signature is required and the image has none there. Like the two after it, it is
	// concluded from other facts, and found at no location.
	Unsigned
	// Missigned means that nodes accept none of its signatures, or cannot read what stands
	// where they should be.
	Missigned
	// SignaturesDenied means that the registry does not let nodes look for signatures.
	SignaturesDenied
)

// String implements fmt.Stringer.
func (p Presence) String() string {
	return [...]string{
		"unknown", "present", "absent", "denied", "unreachable", "mismatch", "incomplete", "inconclusive",
		"unsigned", "missigned", "signatures denied",
	}[p]
}

// EndsPull reports whether a node that meets p stops there, whether or not it gets the image.
func (p Presence) EndsPull() bool {
	return p == Present || p >= Mismatch
}

// IsUndetermined reports whether the location may have the image: it has not said so, and not that it has none.
func (f *Fact) IsUndetermined() bool {
	return f.Presence == Unknown || f.Presence == Unreachable || f.Presence == Inconclusive
}

// A Fact is the answer of a location, with its time.
type Fact struct {
	Presence Presence
	// Digest is that of the manifest the location serves, if Present and known.
	Digest string
	// MediaType is that of the manifest, if Present.
	MediaType string
	// Platforms are what an index lists ("linux/arm64/v8"), nil for a single
	// image or if it was not read. The Missing are not among them.
	Platforms []string
	// Missing are platforms that nodes have and the index lists, but whose manifests (or
	// blobs, where those were looked up) the location does not hold: a sparse copy.
	Missing []string
	// Serves are the platforms of nodes ("linux/arm64") for which a node would get an
	// image there: for an index, by the runtime's own choice of an instance; for a single
	// image, by its config. Lacks are those for which it would not, because the index lists
	// none or the single image is for another platform. Both are nil if nothing was looked
	// up, or if the config of a single image does not say. For a platform of nodes that is in
	// neither, a node would choose one of the Missing.
	Serves, Lacks []string
	// Guessed is set where no node's platform was known, so that Serves and Missing cover
	// everything that the index lists for Linux.
	Guessed bool
	// Children are the digests of the manifests that an index lists, nil for a
	// single image or if it was not read.
	Children []string
	// Detail is for people: one line that says what the registry answered. It is set if
	// the image is not Present, and where a part is Missing only because some of its blobs
	// are; then it names those. It contains no credentials and no control characters.
	Detail string
	// Instances are the manifests that nodes would run, for each of their platforms that gets
	// one there. They are nil where that was not looked up; see Runs.
	Instances []Instance
	// Signatures are those found at a Location of DepthSignatures, if Present.
	Signatures *signing.Signatures
	// Size is what a node would fetch in layers, compressed: of an index, for the largest of Instances. 0 if the
	// manifest was not read.
	Size int64
	// AsNodes is set where the registry was asked with the very credentials that nodes have:
	// the global pull secret, or none as that has none for the place. If it is not set, the
	// guard knows less than nodes do, and no refusal proves anything.
	AsNodes bool
	// NoRepository is set where the registry says that there is no such repository. A miss then says nothing about the
	// place once something is copied there.
	NoRepository bool
	// Never is set where asking again tells no more: the copy will come from a place that cannot be asked.
	Never bool
	// Time is when the answer came; zero if Unknown.
	Time time.Time
	// Recalled is set for a miss (Absent) that an earlier lookup found, a minute or so ago.
	// It is good enough to plan by, and does not prove that the old route fails; where a
	// verdict depends on it, it is looked up again: see rules.Decisive.
	Recalled bool
	// Trouble is why there is no usable answer, nil where nothing is known of that.
	Trouble *Trouble
	// Assumed says on what evidence the fact rests where the location was not found so, but is assumed
	// to be once a mirroring or a deletion has been done; "" for what was found. Only the command line assumes
	// anything: see package review/whatif.
	Assumed string
}

// An Instance is the manifest that nodes of a platform run of an image.
type Instance struct {
	// Platform is that of the nodes ("linux/arm64"), "" for a single image, which nodes of any
	// platform take.
	Platform string
	// Digest is that by which its signatures are looked up.
	Digest string
}

// Runs returns the manifests that nodes would run, and whether they are known. Nodes look for
// the signatures of a single image by its SHA-256 digest, whatever it is pulled by
// (docker_image_src.go, manifestDigest).
func (f *Fact) Runs() ([]Instance, bool) {
	switch {
	case f.Instances != nil:
		return f.Instances, true
	case f.MediaType != "" && !slices.Contains(IndexTypes, f.MediaType) && strings.HasPrefix(f.Digest, "sha256:"):
		return []Instance{{Digest: f.Digest}}, true
	default:
		return nil, false
	}
}

// Facts are the answers about locations. A location without an entry has not been asked about; one with
// an Unknown fact has, and gave no answer in time. The facts are shared, and must not be changed; none
// is nil.
type Facts map[mirrors.Location]*Fact

// At returns the fact about a location: an Unknown one if it has not been asked about.
func (f Facts) At(l mirrors.Location) *Fact {
	if fact := f[l]; fact != nil {
		return fact
	}
	return &NotAsked
}

// HasUnknown reports whether something was asked for that is not known yet.
func (f Facts) HasUnknown() bool {
	for _, fact := range f {
		if fact.Presence == Unknown {
			return true
		}
	}
	return false
}

// On returns the facts about the sources of a route, in their order.
func (f Facts) On(r *mirrors.Route) []*Fact {
	facts := make([]*Fact, len(r.Sources))
	for k := range r.Sources {
		facts[k] = f.At(r.Sources[k].Location)
	}
	return facts
}

// Facts about which nothing was found.
var (
	NotAsked           Fact
	PlatformsNotAsked  = Fact{Presence: Inconclusive, Detail: "found; its platforms were not looked up in time"}
	SignaturesNotAsked = Fact{Presence: Inconclusive, Detail: "found; its signatures were not looked up in time"}
)

// IndexTypes are the media types of lists of manifests.
var IndexTypes = []string{
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
}

// IsWhole reports whether nodes of every platform get an image there, by f.
func (f *Fact) IsWhole() bool { return len(f.Missing) == 0 && len(f.Lacks) == 0 }

// IsSparse reports whether it is an index, by f, without a part for nodes of a platform, which then get nothing there: those of all
// platforms take a single image, and fail to run it.
func (f *Fact) IsSparse() bool { return len(f.Missing) > 0 || len(f.Children) > 0 && len(f.Lacks) > 0 }

// IsForAll is IsWhole, and that it is known for which platforms nodes are.
func (f *Fact) IsForAll() bool { return f.IsWhole() && !f.Guessed }

// Describe says what a fact means, in the words of its Detail if it has any.
func Describe(f *Fact) string {
	switch f.Presence {
	case Present:
		if f.Assumed != "" {
			found := *f
			found.Assumed = ""
			return "assumed, as " + f.Assumed + "; there it was " + Describe(&found)
		}
		if len(f.Missing) > 0 {
			found := "found, without its part for " + strings.Join(f.Missing, ", ")
			if f.Detail != "" {
				found += "; " + f.Detail
			}
			return found
		}
		return "found"
	case Absent:
		return cmp.Or(f.Detail, "not found")
	case Denied:
		return cmp.Or(f.Detail, "access denied")
	case Unreachable:
		return cmp.Or(f.Detail, "could not be reached")
	case Mismatch:
		return cmp.Or(f.Detail, "answers with something else")
	case Incomplete:
		return cmp.Or(f.Detail, "lacks some of its blobs")
	default:
		return cmp.Or(f.Detail, "not asked")
	}
}

// NotAskedAsProposed returns the Fact about a Location with ProposedTrust that could not be
// asked with the proposed CAs. Its answer with the CAs in force would prove nothing.
func NotAskedAsProposed(now time.Time) Fact {
	return Fact{
		Presence: Unreachable,
		Detail:   "was not asked with the proposed certificate authorities",
		Time:     now,
	}
}

// A Freshness says how old facts may be that are asked for. The zero value is for those whose time is not over, by their kinds.
type Freshness struct {
	// Recalled lets misses count that are no longer fresh, and signatures to which others may have been added, as
	// Recalled. They are good enough to find out what else has to be looked up.
	Recalled bool
	// Since, unless zero, has what Recalled is about looked up again, if it was learned before: callers that ask
	// at the same moment share one lookup, however long each of them has to wait for its turn.
	Since time.Time
}

// HasDigest reports whether it is known which image f is about.
func (f *Fact) HasDigest() bool {
	unread := len(f.Children) == 0 && slices.Contains(IndexTypes, f.MediaType) // an index whose children were not read
	return f.Digest != "" && !unread
}

// IsOneImage reports whether two places have the same, or one a part of what the other has.
func IsOneImage(a, b *Fact) bool {
	return a.Digest == b.Digest || slices.Contains(a.Children, b.Digest) || slices.Contains(b.Children, a.Digest)
}

// Stopped returns f with what its signatures make of it.
func (f *Fact) Stopped(presence Presence, detail string) *Fact {
	of := *f
	of.Presence, of.Detail = presence, "found; "+detail
	return &of
}

// TagOf returns the tag of a location by tag.
func TagOf(l mirrors.Location) string { return l.Ref[strings.LastIndexByte(l.Ref, ':')+1:] }

// Cause is the reason why a place gives no usable answer, told apart by the remedy.
type Cause int8

// The causes. Silent is that nothing is known of an answer.
const (
	Silent           Cause = iota
	Overloaded             // it answers 429, or that it fails
	Strange                // it answers as no registry does
	Nameless               // the DNS does not know it
	BehindProxy            // the proxy on the way cannot be used
	NeverAsked             // its address means something only on the asking machine
	Redirecting            // it redirects to a forbidden address
	PlainHTTP              // it does not speak TLS
	UnknownAuthority       // nodes do not trust what issued its certificate
	BadCertificate         // its certificate is expired, for another name, or not to be verified
	BadHandshake           // no version or cipher of TLS suits both
	NoEntry                // the pull secret has no entry for it
	EmptyEntry             // the entry has no credentials
	BrokenEntry            // nodes cannot read the entry
	RefusedEntry           // it refuses the credentials of the entry
	HelperEntry            // a program of the nodes knows their credentials
)

// Trouble is the Cause of a Fact, with what it is about: the server, which need not be the registry itself, and the key of
// the entry in the pull secret, "" for none.
type Trouble struct {
	Cause         Cause
	Server, Entry string
}
