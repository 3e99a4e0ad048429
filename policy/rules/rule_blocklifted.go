package rules

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
)

// BlockLifted: a narrower entry lifts a wider NeverContactSource. Only the entry
// with the longest prefix counts, and a block is never inherited, so an entry for
// quay.io/app that says AllowContactingSource, or nothing, opens the way to a
// source that was closed for all of quay.io. No pull breaks, but those who closed the source will want
// to know.
func blockLifted(a *evidence.Case) (policy.Finding, bool) {
	if !a.Hidden || a.After.Err != nil || !a.Before.SourceBlocked() || a.After.SourceBlocked() {
		return policy.Finding{}, false
	}
	return policy.Finding{
		Severity: policy.Warn,
		Reason:   fmt.Sprintf("the narrower source %s lifts the block of %s: nodes may contact the source again", a.After.Entry, a.Before.Entry),
		Detail:   a.Places(),
		Remedy:   []string{fmt.Sprintf("set NeverContactSource for %s too, once a mirror serves it", a.After.Entry)},
	}, true
}
