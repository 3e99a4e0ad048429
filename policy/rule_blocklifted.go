package policy

import "fmt"

// BlockLifted: a narrower entry lifts a wider NeverContactSource. Only the entry
// with the longest prefix counts, and a block is never inherited, so an entry for
// quay.io/app that says AllowContactingSource, or nothing, opens the way to a
// source that was closed for all of quay.io. No pull breaks, but those who closed the source will want
// to know.
func blockLifted(a *assessment) (Finding, bool) {
	if !a.hidden || a.After.Err != nil || !a.Before.SourceBlocked() || a.After.SourceBlocked() {
		return Finding{}, false
	}
	return Finding{
		Severity: Warn,
		Reason:   fmt.Sprintf("the narrower source %s lifts the block of %s: nodes may contact the source again", a.After.Entry, a.Before.Entry),
		Detail:   a.places(),
		Remedy:   []string{fmt.Sprintf("set NeverContactSource for %s too, once a mirror serves it", a.After.Entry)},
	}, true
}
