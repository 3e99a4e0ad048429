package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// A Copy is an image that the mirrors of its new route do not serve as nodes need it: what to copy,
// from where and to where. A Finding has one where copying would help; its commands are then among
// the remedies.
type Copy struct {
	Image Image
	// Rule is that of the Finding.
	Rule string
	// Rank is that of Settings.Rank: the lowest is to be copied first.
	Rank int
	// From are the places that hold the image, by the facts, sources first, and else in the order in which nodes would find
	// it today; all have the digest, if that is known. If no place is known to hold it, Found is not set,
	// and From has the last place of the route only.
	From  []mirrors.Location
	Found bool
	// Digest is that of the image at From; "" if it is not known.
	Digest string
	// To is the place that lacks the image, in the words of the route: by tag or by digest. It is a mirror
	// unless ToSource is set: a source is often not the user's to write to.
	To       mirrors.Location
	ToSource bool
	// Cache is set if To is at a pull-through cache: nothing is copied there, but pulled once through it.
	Cache bool
	// Attachments are signatures that are missing at To and were found elsewhere. Where OnlyAttachments
	// is set, the image itself is there. There may be more at From that were not looked up.
	Attachments     []AttachmentCopy
	OnlyAttachments bool
	// Readers are those of all images of the plan.
	Readers Readers
	// Partial is set if To has manifests of it that name missing manifests or blobs. Having one of its manifests is then no proof
	// of having that one's blobs.
	Partial bool
	// Moves is set if To has another image under the tag, which a copy would replace; MayMove if that is not known.
	Moves, MayMove bool
	// Denied is set if To does not let nodes in, which is then all that Obstacle says. Some registries say so of what
	// they do not have.
	Denied bool
	// Obstacle says what to do instead of a copy, or before one; "" if the copy is all.
	Obstacle string
}

// An AttachmentCopy is the tag of signatures to be copied with an image. Moves is set if To has something else under it, or may have.
type AttachmentCopy struct {
	From, To mirrors.Location
	Moves    bool
}

// Commands returns the commands that copy c, or what to do instead.
func (c *Copy) Commands() []string {
	switch {
	case c == nil:
		return nil
	case c.Obstacle != "":
		return []string{c.Obstacle}
	case c.Cache:
		// It was asked already, as nodes ask it, so that what it lacks is not for it to give.
		return []string{c.SeeUpstream("it has only what it gets there"), "then pull it once through the cache: " + PullCommand(c.To)}
	case !c.OnlyAttachments:
		return []string{condition(c.Moves, c.MayMove) + CopyCommand("--all --preserve-digests", c.From[0], c.To)}
	}
	return convert.Each(c.Attachments, func(a AttachmentCopy) string {
		return condition(a.Moves, false) + CopyCommand("--preserve-digests", a.From, a.To)
	})
}

// condition says before a command that copies what has to be known of the tag that it moves, or may move; "" if it does not.
func condition(moves, mayMove bool) string {
	switch {
	case moves:
		return "if nothing else needs what the tag names there, replace it: "
	case mayMove:
		return "if nothing else needs what the tag names there: "
	default:
		return ""
	}
}

// CopyCommand returns the command that copies from one place to another, with flags first.
func CopyCommand(flags string, from, to mirrors.Location) string {
	return "skopeo copy " + CopyArguments(flags, from, to)
}

// CopyArguments returns the arguments of skopeo copy, flags first.
func CopyArguments(flags string, from, to mirrors.Location) string {
	if from.Insecure {
		flags += " --src-tls-verify=false"
	}
	if to.Insecure {
		flags += " --dest-tls-verify=false"
	}
	return fmt.Sprintf("%s docker://%s docker://%s", flags, from.Ref, to.Ref)
}

// merge adds what other, of the same place, has to copy.
func (c *Copy) merge(other *Copy) {
	c.Rank = min(c.Rank, other.Rank)
	c.Moves, c.MayMove = c.Moves || other.Moves, c.MayMove || other.MayMove
	c.Partial = c.Partial || other.Partial
	for _, s := range other.Readers.At(c.To.Ref) {
		c.Readers = c.Readers.With(&s)
	}
	c.OnlyAttachments = c.OnlyAttachments && other.OnlyAttachments
	for _, a := range other.Attachments {
		if !slices.Contains(c.Attachments, a) {
			c.Attachments = append(slices.Clip(c.Attachments), a)
		}
	}
}

// PullCommand returns the command that pulls all of an image once, and keeps none of it.
func PullCommand(from mirrors.Location) string {
	flags := "--all"
	if from.Insecure {
		flags += " --src-tls-verify=false"
	}
	return fmt.Sprintf(`skopeo copy %s docker://%s "dir:$(mktemp -d)"`, flags, from.Ref)
}

// SeeUpstream says what to do about the upstream of a cache, and why.
func (c *Copy) SeeUpstream(why string) string {
	return fmt.Sprintf("see to the upstream of the pull-through cache %s, or to its credentials there: %s", c.To.Host(), why)
}

// MovesTag notes that To has another image under the tag.
func (c *Copy) MovesTag() {
	if c.Moves = true; c.Cache && c.Obstacle == "" {
		c.Obstacle = c.SeeUpstream("the tag names another image there")
	}
}

// Readers are the ways in which nodes look for signatures of what they pull, by the reference of the place in one spelling, each
// way once. The pods of one namespace may be held to signatures, and those of another not, or an image by one name, and not by
// another: the former meet copies for the latter, too.
type Readers map[string][]mirrors.PullSource

// At returns those of a place, however it is spelled.
func (r Readers) At(ref string) []mirrors.PullSource { return r[mirrors.OneSpelling(ref)] }

// Add adds the ways on a route.
func (r Readers) Add(route *mirrors.Route) {
	for k := range route.Sources {
		if s := &route.Sources[k]; s.Tried() && s.WantsSignatures() && !r.have(s) {
			at := mirrors.OneSpelling(s.Ref)
			r[at] = append(r[at], *s)
		}
	}
}

func (r Readers) have(s *mirrors.PullSource) bool {
	return slices.ContainsFunc(r.At(s.Ref), func(other mirrors.PullSource) bool {
		return s.Attachments == other.Attachments && s.Trust.IsMetBy(other.Trust) && other.Trust.IsMetBy(s.Trust)
	})
}

// With returns r with a way that it may lack.
func (r Readers) With(s *mirrors.PullSource) Readers {
	if r.have(s) {
		return r
	}
	more := Readers{}
	maps.Copy(more, r)
	at := mirrors.OneSpelling(s.Ref)
	more[at] = append(slices.Clip(more[at]), *s)
	return more
}

// Signed reports whether nodes require signatures of the image, for any of the pods that pull from To: without them, a copy is
// worse than none, as nodes stop there.
func (c *Copy) Signed() bool {
	return slices.ContainsFunc(c.Readers.At(c.To.Ref), func(s mirrors.PullSource) bool { return s.Trust != nil })
}

// Unlooked says what to do first where nodes require signatures of images at To and look for none there; "" if they do not.
func (c *Copy) Unlooked() string {
	for _, s := range c.Readers.At(c.To.Ref) {
		if s.Trust != nil && !s.Attachments {
			return "let nodes look for signatures there: use-sigstore-attachments for " + Repository(c.To.Ref) + " in registries.d"
		}
	}
	return ""
}

// A Look is one for signatures that nodes take once they have found a manifest at a place.
type Look struct {
	Instance Instance
	by       mirrors.PullSource
}

// Looks returns those that nodes will take at To once the manifest with a digest is there: pulled by the reference of To, by that digest, or,
// of an index, by those of its parts. Runs are the manifests that they run of it.
func (c *Copy) Looks(digest string, runs []Instance, parts []string) (looks []Look) {
	repository := Repository(c.To.Ref)
	add := func(ref string, runs []Instance) {
		for _, by := range c.Readers.At(ref) {
			for _, instance := range runs {
				looks = append(looks, Look{instance, by})
			}
		}
	}
	add(c.To.Ref, runs)
	if whole := repository + "@" + digest; whole != c.To.Ref {
		add(whole, runs)
	}
	for _, part := range parts {
		add(repository+"@"+part, []Instance{{Digest: part}})
	}
	return looks
}

// At returns the tag that nodes ask for.
func (l *Look) At() mirrors.Location {
	at, _ := l.by.Location.Bare().Signatures(l.Instance.Digest)
	return at
}

// Requires reports whether they run the image only with a signature.
func (l *Look) Requires() bool { return l.by.Trust != nil }

// Stops says why nodes would stop at a mirror that has the image, given the signatures found there and those that a copy brings,
// Absent for none; "" if they would not. Existing signatures stay, unless they are to be replaced.
func (l *Look) Stops(there, brought *Fact, replaces bool) string {
	tag := TagOf(l.At())
	readable := there.Presence == Present || there.Presence == Mismatch || there.Presence == Incomplete
	switch {
	case !l.by.Attachments:
		return "nodes require a signature of it and, by registries.d, look for none there"
	case there.Presence == Absent, readable && replaces && brought.Presence == Present:
		return l.refuses(brought, "nodes would stop at the mirror for its signatures under the tag "+tag, true)
	case there.Presence == Present:
		return l.refuses(there, "nodes would stop at the mirror for what it has under the tag "+tag, there.Digest != "" && there.Digest == brought.Digest)
	default:
		return fmt.Sprintf("nodes would stop at the mirror, as they could not read its signatures under the tag %s: %s", tag, Describe(there))
	}
}

// refuses says why nodes do not accept signatures, in words that begin with what; "" if they do, or if that cannot be judged and nodes find
// the same where the image comes from.
func (l *Look) refuses(f *Fact, what string, same bool) string {
	switch {
	case l.by.Trust == nil:
		return ""
	case f.Presence == Absent:
		return what + ": there is none"
	case f.Presence != Present:
		return what + ": " + Describe(f)
	}
	judgement := f.Signatures.Judge(l.by.Trust.Requirements, signing.Image{Reference: l.by.Trust.Reference, Digest: l.Instance.Digest})
	if judgement.Outcome == signing.Accepted || judgement.Outcome == signing.Undecided && same {
		return ""
	}
	return what + ": " + text.Line(judgement.Reason)
}
