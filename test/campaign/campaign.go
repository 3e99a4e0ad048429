// Package campaign says how often a test makes an attack or tries a random world: a few times, or as often as it takes
// to find rare faults in a campaign, for which the Makefile sets CAMPAIGN.
package campaign

import "os"

// On reports whether this is a campaign.
func On() bool { return os.Getenv("CAMPAIGN") != "" }

// Times returns few, or often in a campaign.
func Times(few, often int) int {
	if On() {
		return often
	}
	return few
}
