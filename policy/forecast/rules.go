package forecast

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// A forecastRule objects to what a change does to the nodes.
type forecastRule struct {
	Id    string
	check func(plan.Plan, *Forecast) []policy.Finding
}

// ForecastRules are the rules for a Forecast.
var ForecastRules = []forecastRule{
	{policy.RolloutStalls, rolloutStalls},
	{policy.DrainLosesPod, drainLosesPod},
	{policy.DrainBlocked, drainBlocked},
	{policy.RolloutBusy, rolloutBusy},
	{policy.PoolPaused, poolPaused},
}

// find returns the findings of r, with the severities of the plan's settings. A rollout that
// stalls is a matter of the cluster: whose image causes it makes no difference.
func (r forecastRule) find(p plan.Plan, f *Forecast) []policy.Finding {
	findings := r.check(p, f)
	for i := range findings {
		f := &findings[i]
		f.Rule = r.Id
		settled := p.Settings.ForWhole().Settle(policy.Finding{Rule: r.Id, Severity: f.Severity}, p.Settings.IsProtected(f.Image))
		f.Severity, f.Exemptions = settled.Severity, settled.Exemptions
	}
	return findings
}

// IsRule reports whether id is that of a rule about what a change does to the nodes.
func IsRule(id string) bool {
	return slices.ContainsFunc(ForecastRules, func(r forecastRule) bool { return r.Id == id })
}
