package copyplan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// lookups returns the unknown locations where copies come from and go to: the manifests, and then signatures at both.
func lookups(copies []policy.Copy, known policy.Facts) []mirrors.Location {
	var locs []mirrors.Location
	asked := map[mirrors.Location]bool{}
	ask := func(l mirrors.Location) {
		if _, ok := known[l]; !ok && !asked[l] {
			asked[l] = true
			locs = append(locs, l)
		}
	}
	for i := range copies {
		s := standing{&copies[i], known}
		if s.Cache {
			continue
		}
		ask(manifestAt(s.Copy))
		ask(s.To)
		for _, digest := range s.signed() {
			from, to, ok := s.signaturesOf(digest)
			if !ok {
				continue
			}
			ask(from)
			ask(to)
		}
	}
	return locs
}

func manifestAt(c *policy.Copy) mirrors.Location {
	at := c.From[0]
	at.Depth = mirrors.DepthManifest
	return at
}

// A standing is a copy, with the facts about where it comes from and goes to.
type standing struct {
	*policy.Copy
	facts policy.Facts
}

// digest returns that of the image, "" if it is not known.
func (s standing) digest() string { return cmp.Or(s.Digest, s.facts.At(manifestAt(s.Copy)).Digest) }

// runs returns the manifests that nodes run of the image, and whether they are known.
func (s standing) runs() ([]policy.Instance, bool) { return s.facts.At(manifestAt(s.Copy)).Runs() }

func (s standing) looks() []policy.Look {
	runs, _ := s.runs()
	return s.Looks(s.digest(), runs, s.facts.At(manifestAt(s.Copy)).Children)
}

// signed returns the digests of the manifests whose signatures nodes look for somewhere, each once.
func (s standing) signed() (digests []string) {
	runs, _ := s.runs()
	for _, look := range s.looks() {
		runs = append(slices.Clip(runs), look.Instance)
	}
	for _, instance := range runs {
		if !slices.Contains(digests, instance.Digest) {
			digests = append(digests, instance.Digest)
		}
	}
	return digests
}

// signaturesOf returns where the signatures of a manifest come from and go to; false if there is no such place.
func (s standing) signaturesOf(digest string) (from, to mirrors.Location, ok bool) {
	to, ok = s.To.Signatures(digest)
	for _, a := range s.Attachments {
		if a.To == to.Bare() {
			a.From.Depth = mirrors.DepthSignatures
			return a.From, to, ok
		}
	}
	from, okFrom := s.From[0].Signatures(digest)
	return from, to, ok && okFrom
}

// at returns the fact about a tag of signatures at the mirror. A missing repository says nothing of its future contents, nor does
// a mirror that denies all.
func (s standing) at(to mirrors.Location) *policy.Fact {
	f := s.facts.At(to)
	if f.Presence == policy.Denied && s.Denied || f.NoRepository && s.facts.At(s.To).NoRepository {
		return &policy.Fact{Presence: policy.Absent}
	}
	return f
}

// obstacle says why a line would harm, or what to do instead of it; "" for nothing.
func (s standing) obstacle() string {
	there := s.facts.At(s.To)
	switch {
	case s.Obstacle != "" && !s.Denied:
		return s.Obstacle
	case s.Moves, !mirrors.ByDigest(s.To.Ref) && there.Presence == policy.Present && (s.digest() == "" || there.Digest != s.digest()):
		return "the tag names another image at " + s.To.Ref + "; mirrorset-guard sync with --move-tags moves it"
	case !isPlain(s.From[0].Ref) || !isPlain(s.To.Ref):
		return "its name is not safe to be given to a tool"
	default:
		return ""
	}
}

// unknown says what has to be known before a line may be written; "" if all of it is.
func (s standing) unknown() string {
	there := s.facts.At(s.To).Presence
	if !s.Denied && !mirrors.ByDigest(s.To.Ref) && there != policy.Present && there != policy.Absent {
		return "what " + s.To.Ref + " names"
	}
	if len(s.Readers.At(s.To.Ref)) == 0 || there == policy.Present {
		return ""
	}
	if s.facts.At(manifestAt(s.Copy)).Presence != policy.Present {
		return "" // a plan that is carried out where the source is in reach says that nothing is known of it
	}
	_, known := s.runs()
	for _, look := range s.looks() {
		from, _, _ := s.signaturesOf(look.Instance.Digest)
		found := s.facts.At(from).Presence
		known = known && (found == policy.Present || found == policy.Absent || found == policy.Mismatch)
	}
	if !known {
		return "signatures of " + s.Image.Ref
	}
	return ""
}

// stops says why nodes would stop at the mirror once it has the image; "" if they would not, or stop there as it is.
func (s standing) stops() string {
	if s.facts.At(s.To).Presence == policy.Present {
		return ""
	}
	for _, look := range s.looks() {
		from, to, _ := s.signaturesOf(look.Instance.Digest)
		if why := look.Stops(s.at(to), s.facts.At(from), false); why != "" {
			return why
		}
	}
	return ""
}

// takeSignatures returns those to be copied, the tags of others at the mirror, which stay, and whether some cannot be read. For copies
// after it, those that it takes are at the mirror: images of several sources may share a place there, and a part with it, whose
// signatures are not the same.
func (s standing) takeSignatures() (copies []policy.AttachmentCopy, kept []mirrors.Location, unreadable bool) {
	for _, digest := range s.signed() {
		from, to, ok := s.signaturesOf(digest)
		found, there := s.facts.At(from), s.at(to)
		switch {
		case !ok || found.Presence != policy.Present:
			unreadable = unreadable || found.Presence == policy.Mismatch || found.Presence == policy.Incomplete
		case there.Presence == policy.Absent, there.Presence == policy.Present && there.Digest == found.Digest:
			copies = append(copies, policy.AttachmentCopy{From: from.Bare(), To: to.Bare()})
			s.facts[to] = found
		default:
			kept = append(kept, to.Bare())
		}
	}
	return copies, kept, unreadable
}

// byDigest returns the place to copy from, by its digest if that is known.
func (s standing) byDigest() mirrors.Location {
	from := s.From[0]
	repository, version, ok := mirrors.Canonical(from.Ref)
	if digest := s.digest(); ok && strings.HasPrefix(version, ":") && digest != "" {
		from.Ref = repository + "@" + digest
	}
	return from
}
