package rules

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// DecideStanding judges p by the facts.
func DecideStanding(p plan.StandingPlan, facts policy.Facts) policy.StandingVerdict {
	j := judgeInForce(p.Plan, facts)
	for _, r := range inForceRules {
		j.Findings = append(j.Findings, r.find(p.Plan, p.Settings, facts)...)
	}
	sort(p.Settings, j.Findings)
	return policy.StandingVerdict{Judgement: j}
}

// A Standing is the state of an image at its mirrors.
type Standing struct {
	evidence.Reroute
	// Outcome is Works where a mirror serves the image, Fails where it is known that
	// none does, or none in full, and Unsure if that could not be determined.
	Outcome evidence.Outcome
	// At is the mirror that serves it, where Outcome is Works.
	At mirrors.Location
	// Finding states the fault where Outcome is Fails.
	Finding policy.Finding
	// Objects are those that send the image to its mirrors, or cut it off from them,
	// sorted by name; none where the configuration does not tell.
	Objects []mirrors.Object
}

// Standings returns the state of each image of a plan by NewStanding, protected images first: the worst, where nodes take
// different routes to it.
// It leaves out images that only history names, or only guesses, and
// disregards findings that the settings make Info: those are not wanted.
func Standings(p plan.StandingPlan, facts policy.Facts) []Standing {
	s := &p.Settings
	objects := map[string][]mirrors.Object{} // by what they depend on
	at := map[string]int{}                   // by image: its nodes may take several routes
	var standings []Standing
	for _, k := range p.Ranking() {
		r := &p.Reroutes[k]
		a := evidence.Assess(s, r, facts)
		if policy.OnlyHistory(r.Image) || s.MerelyGuessed(r.Image) || !a.Mirrored() {
			continue
		}
		standing := standing(s, a)
		i, known := at[r.Image.Ref]
		if known && !standing.isWorse(standings[i]) {
			continue
		}
		key := strings.Join(append([]string{policy.PullType(r.Image.Ref), r.Puller.String(), r.After.Entry}, r.Pools...), " ")
		if _, ok := objects[key]; !ok {
			objects[key] = p.ObjectsBehind(r)
		}
		standing.Reroute, standing.Objects = *r, objects[key]
		standing.Finding.Reason = inForce.Replace(standing.Finding.Reason)
		if known {
			standings[i] = standing
			continue
		}
		at[r.Image.Ref] = len(standings)
		standings = append(standings, standing)
	}
	return standings
}

// isWorse reports whether less works than by other.
func (s Standing) isWorse(other Standing) bool {
	return other.Outcome != evidence.Fails && (s.Outcome == evidence.Fails || s.Outcome == evidence.Unsure && other.Outcome == evidence.Works)
}

// standing says whether the mirrors serve the image of a and, if not, why.
func standing(s *settings.Settings, a *evidence.Case) Standing {
	findings := judgeOne(s, a)
	loss := slices.IndexFunc(findings, isLoss)
	switch {
	case a.Site.RunOnWindows(a.Image.Consumers): // nodes ask other places
		return Standing{Outcome: evidence.Unsure}
	case a.OutcomeAtMirrors == evidence.Unsure, loss >= 0 && a.OutcomeAtMirrors.Found() && a.Awaited():
		return Standing{Outcome: evidence.Unsure}
	case loss >= 0:
		return Standing{Outcome: evidence.Fails, Finding: findings[loss]}
	case a.OutcomeAtMirrors.Found():
		at, _ := a.NewRoute.Served()
		return Standing{Outcome: evidence.Works, At: at.Location}
	default:
		return Standing{Outcome: evidence.Unsure} // no rule has a finding, or the settings ignore it
	}
}
