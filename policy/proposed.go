package policy

import "time"

// NotAskedAsProposed returns the Fact about a Location with ProposedTrust that
// could not be asked under the proposed certificate authorities: those in force
// say nothing about it.
func NotAskedAsProposed(now time.Time) Fact {
	return Fact{
		Presence: Unreachable,
		Detail:   "was not asked with the proposed certificate authorities",
		Time:     now,
	}
}
