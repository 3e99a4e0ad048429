package rules

import (
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// ownPlace is what to do instead of a copy that would replace another image.
const ownPlace = "give each source a mirror, or a path at the mirror, of its own"

// copyToMirror returns the copy of the image to where a node looks first.
func copyToMirror(a *evidence.Case) *policy.Copy {
	if a.Brief {
		return nil
	}
	targets := slices.DeleteFunc(a.NewRoute.MirrorPlaces(), func(at evidence.Place) bool { return at.Fact.Presence == policy.Denied })
	if len(targets) == 0 {
		targets = slices.Concat(a.NewRoute.MirrorPlaces(), a.NewRoute.OpenPlaces())
	}
	if len(targets) == 0 {
		return nil
	}
	c := copyTo(a, targets[0].Location)
	switch credentials := mirrorsDeny(a); {
	case credentials == "":
	case c.Obstacle == "":
		c.Denied, c.Obstacle = true, credentials
	default: // which a copy does not remove, whether the mirror has the image or not
		c.Obstacle += "; and " + credentials
	}
	return c
}

// mirrorsDeny returns what to do if all mirrors of the new route want credentials that the
// nodes do not have; "" otherwise.
func mirrorsDeny(a *evidence.Case) string {
	if !a.NewRoute.HasOpenMirror() || a.NewRoute.Any(true, func(f *policy.Fact) bool { return f.Presence != policy.Denied }) {
		return ""
	}
	first := a.NewRoute.MirrorPlaces()[0]
	return evidence.CredentialsFor(first.Fact, first.Ref)
}

// copyTo returns the copy of the image to a place, with its obstacles: nodes may look for another image
// there, too, and would get the copy.
func copyTo(a *evidence.Case, to mirrors.Location) *policy.Copy {
	if a.Brief {
		return nil
	}
	toMirror := slices.ContainsFunc(a.After.Sources, func(s mirrors.PullSource) bool { return s.Mirror && s.Location == to })
	c := &policy.Copy{Image: a.Settings.SortConsumers(a.Image), Rank: a.Settings.Rank(a.Image), To: to.Bare(), ToSource: !toMirror, Cache: a.Settings.IsCache(to.Ref)}
	c.From, c.Digest, c.Found = origins(a, to)
	c.Partial = isPartial(a, to)
	c.Readers = a.Readers
	for k := range a.After.Sources {
		if s := &a.After.Sources[k]; mirrors.SamePlace(s.Ref, to.Ref) && s.WantsSignatures() {
			c.Readers = c.Readers.With(s)
		}
	}
	met := slices.IndexFunc(a.Rarely().Meetings, func(met evidence.Meeting) bool { return mirrors.SamePlace(met.At.Ref, to.Ref) })
	switch same := !c.Cache && mirrors.SamePlace(c.From[0].Ref, to.Ref); {
	case met >= 0:
		c.Obstacle = fmt.Sprintf("%s: at %s nodes look for %s, too", ownPlace, to.Ref, text.Names(convert.Each(a.Rarely().Meetings[met].Others, func(i policy.Image) string { return i.Ref }), policy.MaxConsumers))
	case same && a.Brought:
		c.Obstacle = "mirror it: the change itself has nodes pull it from " + to.Ref
	case same:
		c.Obstacle = "put the image back where it was: " + to.Ref
	default:
		c.Obstacle = c.Unlooked()
	}
	moves, mayMove := movesTag(a, to, c.Digest)
	if c.MayMove = mayMove; moves {
		c.MovesTag()
	}
	return c
}

// isPartial reports whether a place on the new route is known to lack a part of what it serves: of the image, or of signatures.
func isPartial(a *evidence.Case, l mirrors.Location) bool {
	return slices.ContainsFunc(a.NewRoute.OpenPlaces(), func(at evidence.Place) bool {
		return mirrors.SamePlace(at.Ref, l.Ref) && (at.Fact.Presence == policy.Incomplete || len(at.Fact.Missing) > 0 ||
			slices.ContainsFunc(at.SignatureStates, func(s evidence.SignatureState) bool { return a.Found.At(s.At).Presence == policy.Incomplete }))
	})
}

// movesTag reports whether a place on the new route is a tag that is known to name another manifest than digest, and whether it may.
func movesTag(a *evidence.Case, l mirrors.Location, digest string) (moves, mayMove bool) {
	i := slices.IndexFunc(a.NewRoute.OpenPlaces(), func(at evidence.Place) bool { return mirrors.SamePlace(at.Ref, l.Ref) })
	if i < 0 || mirrors.ByDigest(l.Ref) {
		return false, false
	}
	there := a.NewRoute.OpenPlaces()[i].Fact
	known := there.Presence == policy.Present && there.Digest != "" && digest != ""
	return known && there.Digest != digest, !known && there.Presence != policy.Absent
}

// origins returns the places other than but that hold the image, or the source if no such place is
// known, and the digest that the first has from which nodes would take it. A source that is known to have that one comes
// before mirrors: they may lack parts for which there are no nodes, and without these a copy of all parts fails.
func origins(a *evidence.Case, but mirrors.Location) (from []mirrors.Location, digest string, found bool) {
	for _, whole := range []bool{true, false} {
		sources := len(from)
		for _, at := range slices.Concat(a.OldRoute.OpenPlaces(), a.NewRoute.OpenPlaces()) {
			l, f := at.Bare(), at.Fact
			if f.Presence != policy.Present || mirrors.SamePlace(at.Ref, but.Ref) || f.IsWhole() != whole || slices.Contains(from, l) || len(from) > 0 && f.Digest != digest {
				continue
			}
			next := len(from)
			if !at.Mirror && f.Digest != "" {
				next = sources
				sources++
			}
			from, digest = slices.Insert(from, next, l), f.Digest
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
func copySignatures(a *evidence.Case, at evidence.Place) *policy.Copy {
	if a.Brief {
		return nil
	}
	c := copyTo(a, at.Location)
	c.OnlyAttachments, c.Digest, c.Moves = true, at.Fact.Digest, false
	if c.Obstacle = c.Unlooked(); c.Obstacle == "" && c.Cache {
		c.Obstacle = c.SeeUpstream("it has no other signatures than those")
	}
	if c.Obstacle != "" {
		return c
	}
	for _, s := range at.SignatureStates {
		if s.Presence == policy.Present {
			continue
		}
		from, ok := signedElsewhere(a, at, s.Instance)
		switch {
		case ok:
			c.Attachments = append(c.Attachments, policy.AttachmentCopy{From: from.Bare(), To: s.At.Bare(), Moves: a.Found.At(s.At).Presence != policy.Absent})
			continue
		case s.Unreadable && at.Trust == nil:
			c.Obstacle = "remove what " + at.Host() + " serves under " + s.At.Ref
		default:
			c.Obstacle = fmt.Sprintf("sign it for nodes, under the tag %s, or mirror it with a tool that copies such signatures (oc-mirror v2 does since 4.21)", policy.TagOf(s.At))
		}
		break
	}
	return c
}

// signedElsewhere returns where the signatures of an instance are that nodes would accept at
// the place at.
func signedElsewhere(a *evidence.Case, at evidence.Place, instance policy.Instance) (mirrors.Location, bool) {
	for _, other := range slices.Concat(a.NewRoute.OpenPlaces(), a.OldRoute.OpenPlaces()) {
		from, ok := other.Signatures(instance.Digest)
		f := a.Found.At(from)
		if !ok || f.Presence != policy.Present || other.Location == at.Location {
			continue
		}
		if at.Trust == nil {
			return from, true
		}
		there := evidence.Step{Reroute: a.Reroute, Route: &mirrors.Route{Sources: []mirrors.PullSource{*at.PullSource}}}
		if there.Judge(evidence.SignatureState{Instance: instance, Presence: policy.Present}, f).Presence == policy.Present {
			return from, true
		}
	}
	return mirrors.Location{}, false
}

// AllCopies returns Copies, and after them those of images that the mirrors have already: all that the mirrors
// need to hold the images of the change. It takes an Undetermined image for one that they have.
func AllCopies(p plan.Plan, j policy.Judgement, facts policy.Facts) (all []policy.Copy, missing int) {
	all = j.Copies()
	missing = len(all)
	seen := map[string]bool{}
	for i := range all {
		seen[mirrors.OneSpelling(all[i].To.Ref)] = true
	}
	for _, i := range p.Ranking() {
		a := evidence.Assess(&p.Settings, &p.Reroutes[i], facts)
		places := a.NewRoute.MirrorPlaces()
		if a.After.Err != nil || len(places) == 0 || seen[mirrors.OneSpelling(places[0].Ref)] {
			continue
		}
		at := places[0]
		if served, ok := a.NewRoute.Served(); ok && served.Mirror {
			at = served
		}
		to := mirrors.OneSpelling(at.Ref)
		if seen[to] {
			continue
		}
		seen[to] = true
		all = append(all, *copyTo(a, at.Location))
	}
	return all, missing
}

// An Undetermined is an image that the mirrors on its new route may lack: it could not be determined.
type Undetermined struct {
	Image policy.Image
	// At is the first mirror that may have it, and Why states the fact about that.
	At  mirrors.Location
	Why string
}

// UndeterminedOf returns those of p, each once, protected images first.
func UndeterminedOf(p plan.Plan, facts policy.Facts) []Undetermined {
	var open []Undetermined
	seen := map[string]bool{}
	for _, i := range p.Ranking() {
		a := evidence.Assess(&p.Settings, &p.Reroutes[i], facts)
		if a.After.Err != nil || a.OutcomeAtMirrors != evidence.Unsure || seen[a.Image.Ref] {
			continue
		}
		places := a.NewRoute.MirrorPlaces()
		at := places[max(0, slices.IndexFunc(places, func(at evidence.Place) bool { return at.Fact.IsUndetermined() }))]
		seen[a.Image.Ref] = true
		open = append(open, Undetermined{a.Image, at.Bare(), policy.Describe(at.Fact)})
	}
	return open
}
