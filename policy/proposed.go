package policy

import "time"

// NotAskedAsProposed returns the Fact about a Location with ProposedTrust that could not be
// asked with the proposed CAs. Its answer with the CAs in force would prove nothing.
func NotAskedAsProposed(now time.Time) Fact {
	return Fact{
		Presence: Unreachable,
		Detail:   "was not asked with the proposed certificate authorities",
		Time:     now,
	}
}
