package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Copy is an image that the mirrors of its new route do not serve as nodes need it: what to copy,
// from where and to where. A Finding has one where copying would help; its commands are then among
// the remedies.
type Copy struct {
	Image Image
	// Rule is that of the Finding, and Reason its reason.
	Rule, Reason string
	// Rank is that of Settings.Rank: the lowest is to be copied first.
	Rank int
	// From are the places that hold the image, by the facts, in the order in which nodes would find
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
	// Moves is set if To has another image under the tag, which a copy would replace.
	Moves bool
	// Denied is set if To does not let nodes in, which is then all that Obstacle says. Some registries say so of what
	// they do not have.
	Denied bool
	// Obstacle says what to do instead of a copy, or before one; "" if the copy is all.
	Obstacle string
}

// An AttachmentCopy is the tag of signatures to be copied with an image.
type AttachmentCopy struct{ From, To mirrors.Location }

// Commands returns the commands that copy c, or what to do instead.
func (c *Copy) Commands() []string {
	switch {
	case c == nil:
		return nil
	case c.Obstacle != "":
		return []string{c.Obstacle}
	case c.Cache:
		return c.throughCache()
	case !c.OnlyAttachments:
		return []string{CopyCommand("--all --preserve-digests", c.From[0], c.To)}
	}
	var commands []string
	for _, a := range c.Attachments {
		commands = append(commands, CopyCommand("--preserve-digests", a.From, a.To))
	}
	return commands
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

// Copies returns the copies to make before its images can be pulled, the most important first,
// each place once. It includes those with an Obstacle, and images that only history names. A verdict in
// brief has none for most findings.
func (j Judgement) Copies() []Copy {
	var copies []Copy
	seen := map[string]int{}
	for i := range j.Findings {
		f := &j.Findings[i]
		c := f.Copy
		if c == nil || f.Severity == Info && (f.Rule != ImportFails || !onlyHistory(f.Image)) {
			continue
		}
		to := mirrors.OneSpelling(c.To.Ref)
		if at, ok := seen[to]; ok {
			copies[at].merge(c)
			continue
		}
		seen[to] = len(copies)
		copies = append(copies, *c)
	}
	slices.SortStableFunc(copies, func(a, b Copy) int { return cmp.Compare(a.Rank, b.Rank) })
	return copies
}

// merge adds what other, of the same place, has to copy.
func (c *Copy) merge(other *Copy) {
	c.Rank = min(c.Rank, other.Rank)
	c.Moves = c.Moves || other.Moves
	c.Partial = c.Partial || other.Partial
	for _, s := range other.Readers.At(c.To.Ref) {
		c.Readers = c.Readers.with(&s)
	}
	c.OnlyAttachments = c.OnlyAttachments && other.OnlyAttachments
	for _, a := range other.Attachments {
		if !slices.Contains(c.Attachments, a) {
			c.Attachments = append(slices.Clip(c.Attachments), a)
		}
	}
}

// ownPlace is what to do instead of a copy that would replace another image.
const ownPlace = "give each source a mirror, or a path at the mirror, of its own"

// copyToMirror returns the copy of the image to where a node looks first.
func (a *assessment) copyToMirror() *Copy {
	if a.brief {
		return nil
	}
	targets := slices.DeleteFunc(a.newRoute.mirrors(), func(at place) bool { return at.fact.Presence == Denied })
	if len(targets) == 0 {
		targets = a.newRoute.open()
	}
	if len(targets) == 0 {
		return nil
	}
	c := a.copyTo(targets[0].Location)
	switch credentials := a.mirrorsDeny(); {
	case credentials == "":
	case c.Obstacle == "":
		c.Denied, c.Obstacle = true, credentials
	default: // which a copy does not remove, whether the mirror has the image or not
		c.Obstacle += "; and " + credentials
	}
	return c
}

// copyTo returns the copy of the image to a place, with its obstacles: nodes may look for another image
// there, too, and would get the copy.
func (a *assessment) copyTo(to mirrors.Location) *Copy {
	if a.brief {
		return nil
	}
	c := &Copy{Image: a.settings.sortConsumers(a.Image), Rank: a.settings.Rank(a.Image), To: to.Bare(), ToSource: !a.isMirror(to), Cache: a.settings.isCache(to.Ref)}
	c.From, c.Digest, c.Found = a.origins(to)
	c.Partial = a.isPartial(to)
	c.Readers = a.readers
	for k := range a.After.Sources {
		if s := &a.After.Sources[k]; mirrors.SamePlace(s.Ref, to.Ref) && s.WantsSignatures() {
			c.Readers = c.Readers.with(s)
		}
	}
	met := slices.IndexFunc(a.rarely().meetings, func(met meeting) bool { return mirrors.SamePlace(met.at.Ref, to.Ref) })
	switch same := !c.Cache && mirrors.SamePlace(c.From[0].Ref, to.Ref); {
	case met >= 0:
		c.Obstacle = fmt.Sprintf("%s: at %s nodes look for %s, too", ownPlace, to.Ref, text.Names(convert.Each(a.rarely().meetings[met].others, func(i Image) string { return i.Ref }), maxConsumers))
	case same && a.brought:
		c.Obstacle = "mirror it: the change itself has nodes pull it from " + to.Ref
	case same:
		c.Obstacle = "put the image back where it was: " + to.Ref
	default:
		c.Obstacle = c.unlooked()
	}
	if a.holdsAnother(to, c.Digest) {
		c.moves()
	}
	return c
}

// isPartial reports whether a place on the new route is known to lack a part of what it serves: of the image, or of signatures.
func (a *assessment) isPartial(l mirrors.Location) bool {
	return slices.ContainsFunc(a.newRoute.open(), func(at place) bool {
		return mirrors.SamePlace(at.Ref, l.Ref) && (at.fact.Presence == Incomplete || len(at.fact.Missing) > 0 ||
			slices.ContainsFunc(at.signatures, func(s signatureState) bool { return a.found.At(s.at).Presence == Incomplete }))
	})
}

// holdsAnother reports whether a place on the new route is a tag that is known to name another manifest than digest.
func (a *assessment) holdsAnother(l mirrors.Location, digest string) bool {
	return digest != "" && !mirrors.ByDigest(l.Ref) && slices.ContainsFunc(a.newRoute.open(), func(at place) bool {
		return mirrors.SamePlace(at.Ref, l.Ref) && at.fact.Presence == Present && at.fact.Digest != "" && at.fact.Digest != digest
	})
}

// isMirror reports whether a place on the new route is a mirror.
func (a *assessment) isMirror(l mirrors.Location) bool {
	return slices.ContainsFunc(a.After.Sources, func(s mirrors.PullSource) bool { return s.Mirror && s.Location == l })
}

// origins returns the places other than but that hold the image, or the source if no such place is
// known, and the digest that the first of them has.
func (a *assessment) origins(but mirrors.Location) (from []mirrors.Location, digest string, found bool) {
	for _, whole := range []bool{true, false} {
		for _, at := range slices.Concat(a.oldRoute.open(), a.newRoute.open()) {
			l, f := at.Bare(), at.fact
			if f.Presence != Present || mirrors.SamePlace(at.Ref, but.Ref) || f.isWhole() != whole || slices.Contains(from, l) || len(from) > 0 && f.Digest != digest {
				continue
			}
			from, digest = append(from, l), f.Digest
		}
	}
	switch n := len(a.After.Sources); {
	case len(from) > 0:
		return from, digest, true
	case n > 0:
		return []mirrors.Location{a.After.Sources[n-1].Bare()}, "", false // containers/image puts the source last
	default:
		return []mirrors.Location{{Ref: a.Image.Ref}}, "", false
	}
}

// copySignatures returns the copy of the signatures of each instance to at from where nodes accept
// them, with what else is to be done.
func (a *assessment) copySignatures(at place) *Copy {
	if a.brief {
		return nil
	}
	c := a.copyTo(at.Location)
	c.OnlyAttachments, c.Digest, c.Moves = true, at.fact.Digest, false
	if c.Obstacle = c.unlooked(); c.Obstacle == "" && c.Cache {
		c.Obstacle = c.seeUpstream("it has no other signatures than those")
	}
	if c.Obstacle != "" {
		return c
	}
	for _, s := range at.signatures {
		if s.presence == Present {
			continue
		}
		from, ok := a.signedElsewhere(at, s.Instance)
		switch {
		case ok:
			c.Attachments = append(c.Attachments, AttachmentCopy{from.Bare(), s.at.Bare()})
			continue
		case s.unreadable && at.Trust == nil:
			c.Obstacle = "remove what " + at.Host() + " serves under " + s.at.Ref
		default:
			c.Obstacle = fmt.Sprintf("sign it for nodes, under the tag %s, or mirror it with a tool that copies such signatures (oc-mirror v2 does since 4.21)", tagOf(s.at))
		}
		break
	}
	return c
}

// isCopied reports whether a copy is what helps against f.
func (f *Finding) isCopied() bool { return f.Copy != nil && f.Copy.Obstacle == "" }

// maxCopyCommands is how many findings a message gives the commands of that copy their images; if
// there are more, one command is shorter.
const maxCopyCommands = 3

// manyCopies reports whether denials are for so much that is to be copied that one command is shorter.
func manyCopies(denials []Finding) bool {
	copied := map[string]bool{}
	for i := range denials {
		if f := &denials[i]; f.isCopied() {
			copied[mirrors.OneSpelling(f.Copy.To.Ref)] = true
		}
	}
	return len(copied) > maxCopyCommands
}

// withoutCopy returns f without the commands that copy its image.
func (f Finding) withoutCopy() Finding {
	if f.isCopied() {
		f.Remedy = f.Remedy[len(f.Copy.Commands()):]
	}
	return f
}
