package standing

import (
	"maps"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// reachability says of each registry that is a mirror in the configuration in force whether
// it answers, by its host: true if one image there has a fact, false if the registry is unreachable
// wherever it was asked. One without facts is left out. Sources are left out, too: in a disconnected
// cluster, none of them is in reach.
func reachability(r review.Standing) map[string]bool {
	answers := map[string]bool{}
	for k := range r.Plan.Reroutes {
		for _, l := range r.Plan.Reroutes[k].After.Mirrors() {
			if f, known := r.Facts[l]; known && f.Presence != policy.Unknown {
				host := mirrors.HostOf(mirrors.OneSpelling(l.Ref))
				answers[host] = answers[host] || f.Presence != policy.Unreachable
			}
		}
	}
	return answers
}

// tellReachability logs each registry whose state is not the one that is noted in known, and
// notes it there. The metric has only their number, as hosts are no labels.
func (v *Verifier) tellReachability(known, now map[string]bool) {
	for _, host := range slices.Sorted(maps.Keys(now)) {
		before, noted := known[host]
		switch {
		case !now[host] && (before || !noted):
			v.options.Log.Info("A registry that is a mirror does not answer", "registry", host)
		case now[host] && noted && !before:
			v.options.Log.Info("A registry that is a mirror answers again", "registry", host)
		}
	}
	clear(known)
	maps.Copy(known, now)
}
