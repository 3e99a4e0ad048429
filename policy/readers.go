package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// Readers are the ways in which nodes look for signatures of what they pull, by the reference of the place in one spelling, each
// way once. The pods of one namespace may be held to signatures, and those of another not, or an image by one name, and not by
// another: the former meet copies for the latter, too.
type Readers map[string][]mirrors.PullSource

// readers returns those on all routes of p, of today as well.
func (p *Plan) readers() Readers {
	all := Readers{}
	for i := range p.Reroutes {
		r := &p.Reroutes[i]
		all.add(&r.After)
		all.add(&r.Before)
		for _, other := range r.otherRoutes() {
			all.add(other)
		}
	}
	return all
}

// At returns those of a place, however it is spelled.
func (r Readers) At(ref string) []mirrors.PullSource { return r[mirrors.OneSpelling(ref)] }

func (r Readers) add(route *mirrors.Route) {
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

// with returns r with a way that it may lack.
func (r Readers) with(s *mirrors.PullSource) Readers {
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

// unlooked says what to do first where nodes require signatures of images at To and look for none there; "" if they do not.
func (c *Copy) unlooked() string {
	for _, s := range c.Readers.At(c.To.Ref) {
		if s.Trust != nil && !s.Attachments {
			return "let nodes look for signatures there: use-sigstore-attachments for " + repository(c.To.Ref) + " in registries.d"
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
	repository := repository(c.To.Ref)
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
	tag := tagOf(l.At())
	readable := there.Presence == Present || there.Presence == Mismatch || there.Presence == Incomplete
	switch {
	case !l.by.Attachments:
		return "nodes require a signature of it and, by registries.d, look for none there"
	case there.Presence == Absent, readable && replaces && brought.Presence == Present:
		return l.refuses(brought, "nodes would stop at the mirror for its signatures under the tag "+tag, true)
	case there.Presence == Present:
		return l.refuses(there, "nodes would stop at the mirror for what it has under the tag "+tag, there.Digest != "" && there.Digest == brought.Digest)
	default:
		return fmt.Sprintf("nodes would stop at the mirror, as they could not read its signatures under the tag %s: %s", tag, describe(there))
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
		return what + ": " + describe(f)
	}
	judgement := f.Signatures.Judge(l.by.Trust.Requirements, signing.Image{Reference: l.by.Trust.Reference, Digest: l.Instance.Digest})
	if judgement.Outcome == signing.Accepted || judgement.Outcome == signing.Undecided && same {
		return ""
	}
	return what + ": " + text.Line(judgement.Reason)
}
