package mirrors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Rejection holds the reasons why nothing of a Set would be applied. MCO neither degrades nor reports it
// in any status: it logs the reason, retries forever, and no longer applies any change of an
// ITMS, IDMS, ICSP or image.config.
type Rejection struct {
	// Reasons are sorted by their texts, each one once.
	Reasons []Reason
	// TooMuch is set if the Set is too large for the guard to judge. MCO may well apply it.
	// The reasons of that kind say why, and the others may be incomplete.
	TooMuch bool
}

// A ReasonKind is the kind of a Reason.
type ReasonKind string

// The kinds of reasons, and what Reason.Scope is for each.
const (
	PolicyConflict  ReasonKind = "PolicyConflict"  // a source that is NeverContactSource and AllowContactingSource
	OwnMirror       ReasonKind = "OwnMirror"       // a NeverContactSource source that is among its own mirrors
	InvalidSource   ReasonKind = "InvalidSource"   // the source
	InvalidMirror   ReasonKind = "InvalidMirror"   // the source and the mirror
	InvalidEntry    ReasonKind = "InvalidEntry"    // the list and its entry
	BothLists       ReasonKind = "BothLists"       // "": allowedRegistries and blockedRegistries are set
	WildcardMirrors ReasonKind = "WildcardMirrors" // a wildcard source with mirrors over an entry without
	NotGenerated    ReasonKind = "NotGenerated"    // the generator's words, for any other error of it
	Unreadable      ReasonKind = "Unreadable"      // what nodes could not read
	DefinedTwice    ReasonKind = "DefinedTwice"    // the scope of entries that contradict each other
	PolicyBlocked   ReasonKind = "PolicyBlocked"   // a scope of image policies inside blockedRegistries
	PolicyOutside   ReasonKind = "PolicyOutside"   // a scope of image policies outside allowedRegistries
	PolicyInvalid   ReasonKind = "PolicyInvalid"   // the image policy
	PolicyMirrors   ReasonKind = "PolicyMirrors"   // a scope of image policies, or an entry inside one, whose mirrors make no reference
	TooLarge        ReasonKind = "TooLarge"        // "": what MCO would write does not fit
	TooMuch         ReasonKind = "TooMuch"         // what there is too much of for the guard
)

// A Reason is one thing for which a Set is rejected.
type Reason struct {
	Kind ReasonKind
	// Scope is what the reason is about, in the spelling of the configuration.
	Scope string
	// Offenders are the parties to it, sorted: objects by name ("ImageTagMirrorSet apps"),
	// each as often as it is involved, or entries where no object can be named.
	//
	// The parties of both sides count. A conflict has no wrong side: moving an object from
	// one side to the other is a step towards a repair, although the other side then has one
	// more; and a new object on either side is one more that has to be edited for a repair.
	Offenders []string
	// Amount is the count or size that exceeds its limit; 0 for other kinds.
	Amount int

	text string
}

// String returns the reason as a sentence without a full stop. It names at most three
// objects of a side.
func (r Reason) String() string { return r.text }

// covers reports whether other is no more than what r says: the same thing with no
// party that r does not have.
func (r Reason) covers(other Reason) bool {
	return r.Kind == other.Kind && r.Scope == other.Scope && other.Amount <= r.Amount && IsPart(other.Offenders, r.Offenders)
}

// IsPart reports whether part is whole with zero or more elements removed. For sorted lists
// that is whether whole contains each element of part at least as often.
func IsPart(part, whole []string) bool {
	for _, s := range whole {
		if len(part) > 0 && part[0] == s {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// Error implements error. It gives the first reasons and counts the rest.
func (r *Rejection) Error() string {
	const limit = 10 // as many as a denial lists (maxReasonList in package policy)
	var texts []string
	for i, reason := range r.Reasons {
		if i == limit {
			texts = append(texts, fmt.Sprintf("and %d more", len(r.Reasons)-limit))
			break
		}
		texts = append(texts, reason.String())
	}
	return strings.Join(texts, "; ")
}

// Beyond returns the reasons of r that before does not cover: those of a new kind or about
// something new, and those with a new party. Either may be nil, which has no reasons.
//
// A step from a rejected configuration that adds nothing beyond it repairs the configuration,
// or leaves it as stuck as it is. By this definition the parties to a conflict can be deleted
// and edited in any order that ends the conflict: a deletion removes a party, and an edit
// leaves the parties as they are or removes one. A step that creates a conflict has a reason
// with a new scope, and one that joins a conflict has a new party, whatever else it repairs.
func (r *Rejection) Beyond(before *Rejection) []Reason {
	if r == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Reasons), func(reason Reason) bool {
		return before != nil && slices.ContainsFunc(before.Reasons, func(was Reason) bool { return was.covers(reason) })
	})
}

// Of returns the texts of the reasons of the given kind.
func (r *Rejection) Of(kind ReasonKind) []string {
	var texts []string
	for _, reason := range r.Reasons {
		if reason.Kind == kind {
			texts = append(texts, reason.String())
		}
	}
	return texts
}

func newReason(kind ReasonKind, scope, text string, offenders ...string) Reason {
	slices.Sort(offenders)
	return Reason{Kind: kind, Scope: scope, Offenders: offenders, text: text}
}

// rejection sorts reasons and removes duplicates.
func rejection(reasons []Reason) *Rejection {
	slices.SortFunc(reasons, func(a, b Reason) int {
		return cmp.Or(strings.Compare(a.text, b.text), slices.Compare(a.Offenders, b.Offenders))
	})
	// One object may hold the same mistake twice; the text says it once.
	r := &Rejection{Reasons: slices.CompactFunc(reasons, func(a, b Reason) bool { return a.text == b.text && a.covers(b) })}
	r.TooMuch = slices.ContainsFunc(r.Reasons, func(reason Reason) bool { return reason.Kind == TooMuch })
	return r
}
