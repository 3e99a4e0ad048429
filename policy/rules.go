package policy

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A rule objects to one reroute, or does not.
type rule struct {
	id    string
	check func(*assessment) (Finding, bool)
	// loss is set where such a finding means that its mirrors have lost the image, which the
	// standing verification reports. Findings of the other rules are no reason for an alarm,
	// or mean that nothing could be determined.
	loss bool
	// puller is whose reroutes the rule is for.
	puller mirrors.Puller
}

// isFor reports whether r applies to reroute. RescueMissing alone applies to images that only the rescue
// set needs.
func (r rule) isFor(reroute *Reroute) bool {
	return r.puller == reroute.Puller && (r.puller != mirrors.Nodes || (r.id == RescueMissing) == onlyRescue(reroute.Image))
}

// rules are tried in this order for each image. The first that denies has the
// clearest reason, and ends the search; a warning does not.
var rules = []rule{
	{RewriteError, rewriteError, true, mirrors.Nodes},
	{NoRoute, noRoute, true, mirrors.Nodes},
	{MirrorHidden, mirrorHidden, false, mirrors.Nodes},
	{SignatureMissing, signatureMissing, true, mirrors.Nodes},
	{SignatureRejected, signatureRejected, true, mirrors.Nodes},
	{SignatureUnreadable, signatureUnreadable, false, mirrors.Nodes},
	{NotFullySynced, notFullySynced, true, mirrors.Nodes},
	{ContentMismatch, contentMismatch, true, mirrors.Nodes},
	{BlobsMissing, blobsMissing, true, mirrors.Nodes},
	{ImageMissing, imageMissing, true, mirrors.Nodes},
	{CredentialsMissing, credentialsMissing, true, mirrors.Nodes},
	{Unverified, unverified, false, mirrors.Nodes},
	{UnverifiedInFront, unverifiedInFront, false, mirrors.Nodes},
	{PlatformMissing, platformMissing, true, mirrors.Nodes},
	{BlockLifted, blockLifted, false, mirrors.Nodes},
	{AnotherImage, anotherImage, false, mirrors.Nodes},
	{TagDrift, tagDrift, false, mirrors.Nodes},
	{RescueMissing, rescueMissing, false, mirrors.Nodes},
	{BuildFails, besideNodes, true, mirrors.Builds},
	{ImportFails, besideNodes, false, mirrors.Imports},
	{PullThroughFails, besideNodes, false, mirrors.PullThrough},
}

// isLoss reports whether f says that an image is lost.
func isLoss(f Finding) bool {
	return f.Severity > Info && (f.Rule == PinnedImageMissing || slices.ContainsFunc(rules, func(r rule) bool { return r.id == f.Rule && r.loss }))
}

// A wholeRule objects to a change, or to the configuration in force, as a whole: its findings speak of the configuration, or
// of images whatever their routes.
type wholeRule[P ChangePlan | Plan] struct {
	id    string
	check func(P, Facts) []Finding
	// unseen is set if findings stand for unknown images. As there may
	// be protected ones among them, only RULE@protected weakens a denial.
	unseen bool
	// ongoing is set where a warning is about the configuration in force. No setting turns it into a
	// denial, which would block the very repair.
	ongoing bool
}

// changeRules are the rules for a change as a whole.
var changeRules = []wholeRule[ChangePlan]{
	{id: RejectedByMCO, check: rejectedByMCO, ongoing: true},
	{id: FollowedAtOnce, check: followedAtOnce, ongoing: true},
	{id: Unverified, check: tooMuchToJudge, unseen: true, ongoing: true},
	{id: Unverified, check: unknownCAs, unseen: true},
	{id: InventoryStale, check: inventoryStale, unseen: true},
	{id: MalformedReference, check: func(p ChangePlan, _ Facts) []Finding { return malformedReference(p.Plan, nil) }},
	{id: ImportFails, check: importRefused},
	{id: NoEffect, check: noEffect},
	{id: BroadSource, check: broadSource},
	{id: MirrorInCluster, check: mirrorInCluster},
	{id: PinnedImageMissing, check: pinnedImageMissing},
}

// inForceRules are those of them for the configuration in force.
var inForceRules = []wholeRule[Plan]{
	{id: RejectedByMCO, check: rejectedInForce, ongoing: true},
	{id: Unverified, check: tooMuchInForce, unseen: true, ongoing: true},
	{id: MalformedReference, check: malformedReference},
}

// deletionRules are those of them for a deletion at registries, to which more than the known images may fall.
var deletionRules = append([]wholeRule[Plan]{
	{id: InventoryStale, check: func(p Plan, _ Facts) []Finding { return p.stale(false) }, unseen: true},
}, inForceRules...)

// find returns the findings of r, with the severities of the settings.
func (r wholeRule[P]) find(p P, s Settings, facts Facts) []Finding {
	findings := r.check(p, facts)
	for i := range findings {
		f := &findings[i]
		f.Rule = r.id
		settled := s.forWhole().settle(*f, r.unseen)
		if r.ongoing && f.Severity < Deny && settled.Severity >= f.Severity {
			continue
		}
		*f = settled
	}
	return findings
}

// A forecastRule objects to what a change does to the nodes.
type forecastRule struct {
	id    string
	check func(Plan, *Forecast) []Finding
}

// forecastRules are the rules for a Forecast.
var forecastRules = []forecastRule{
	{RolloutStalls, rolloutStalls},
	{DrainLosesPod, drainLosesPod},
	{DrainBlocked, drainBlocked},
	{RolloutBusy, rolloutBusy},
	{PoolPaused, poolPaused},
}

// find returns the findings of r, with the severities of the plan's settings. A rollout that
// stalls is a matter of the cluster: whose image causes it makes no difference.
func (r forecastRule) find(p Plan, f *Forecast) []Finding {
	findings := r.check(p, f)
	for i := range findings {
		f := &findings[i]
		f.Rule = r.id
		settled := p.settings.forWhole().settle(Finding{Rule: r.id, Severity: f.Severity}, p.settings.IsProtected(f.Image))
		f.Severity, f.Exemptions = settled.Severity, settled.Exemptions
	}
	return findings
}

// RuleIDs returns the ids of all rules, each once, in order. The severity of each can be set.
func RuleIDs() []string {
	ids := convert.Each(rules, func(r rule) string { return r.id })
	for _, r := range changeRules {
		if !slices.Contains(ids, r.id) {
			ids = append(ids, r.id)
		}
	}
	for _, r := range forecastRules {
		ids = append(ids, r.id)
	}
	return ids
}

// IsForecastRule reports whether id is that of a rule about what a change does to the nodes.
func IsForecastRule(id string) bool {
	return slices.ContainsFunc(forecastRules, func(r forecastRule) bool { return r.id == id })
}

// IsRule reports whether id is that of a rule.
func IsRule(id string) bool { return slices.Contains(RuleIDs(), id) }
