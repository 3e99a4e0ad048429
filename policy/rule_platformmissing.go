package policy

import (
	"fmt"
	"slices"
	"strings"
)

// PlatformMissing: the place that nodes would take the image from serves an index
// and lacks a manifest that the index lists for an architecture that nodes have.
// Mirroring tools make such sparse copies when they are told to copy one
// architecture. A node of another one gets the index, which ends its search for a
// place, and then a 404 for its own part of it (semantics §2: after a 200 there is
// no way back).
func platformMissing(v *view) (Finding, bool) {
	place, fact, ok := Served(v.Image.Ref, v.After, v.facts)
	if !ok || len(fact.Missing) == 0 {
		return Finding{}, false
	}
	f := Finding{
		Severity: v.unlessBroken(),
		Reason:   fmt.Sprintf("the copy that nodes would get lacks its part for %s", strings.Join(fact.Missing, ", ")),
		Detail:   v.places(),
		Remedy:   v.copyTo(place),
	}
	if _, before, ok := Served(v.Image.Ref, v.Before, v.facts); ok && containsAll(before.Missing, fact.Missing) {
		f.Severity = Warn // the same nodes lack the same parts today
	}
	return f, true
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
