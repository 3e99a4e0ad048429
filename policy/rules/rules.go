// Package rules decides: one file for each rule, which objects to a change or to what is in force, and the verdicts
// that follow. It is the room above all others but words. The tests of whole decisions are here too.
package rules

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A rule objects to one reroute, or does not.
type rule struct {
	id    string
	check func(*evidence.Case) (policy.Finding, bool)
	// loss is set where such a finding means that its mirrors have lost the image, which the
	// standing verification reports. Findings of the other rules are no reason for an alarm,
	// or mean that nothing could be determined.
	loss bool
	// puller is whose reroutes the rule is for.
	puller mirrors.Puller
}

// isFor reports whether r applies to reroute. RescueMissing alone applies to images that only the rescue
// set needs.
func (r rule) isFor(reroute *evidence.Reroute) bool {
	return r.puller == reroute.Puller && (r.puller != mirrors.Nodes || (r.id == policy.RescueMissing) == policy.OnlyRescue(reroute.Image))
}

// rules are tried in this order for each image. The first that denies has the
// clearest reason, and ends the search; a warning does not.
var rules = []rule{
	{policy.RewriteError, rewriteError, true, mirrors.Nodes},
	{policy.NoRoute, noRoute, true, mirrors.Nodes},
	{policy.MirrorHidden, mirrorHidden, false, mirrors.Nodes},
	{policy.SignatureMissing, signatureMissing, true, mirrors.Nodes},
	{policy.SignatureRejected, signatureRejected, true, mirrors.Nodes},
	{policy.SignatureUnreadable, signatureUnreadable, false, mirrors.Nodes},
	{policy.NotFullySynced, notFullySynced, true, mirrors.Nodes},
	{policy.ContentMismatch, contentMismatch, true, mirrors.Nodes},
	{policy.BlobsMissing, blobsMissing, true, mirrors.Nodes},
	{policy.ImageMissing, imageMissing, true, mirrors.Nodes},
	{policy.CredentialsMissing, credentialsMissing, true, mirrors.Nodes},
	{policy.Unverified, unverified, false, mirrors.Nodes},
	{policy.UnverifiedInFront, unverifiedInFront, false, mirrors.Nodes},
	{policy.PlatformMissing, platformMissing, true, mirrors.Nodes},
	{policy.BlockLifted, blockLifted, false, mirrors.Nodes},
	{policy.AnotherImage, anotherImage, false, mirrors.Nodes},
	{policy.TagDrift, tagDrift, false, mirrors.Nodes},
	{policy.RescueMissing, rescueMissing, false, mirrors.Nodes},
	{policy.BuildFails, besideNodes, true, mirrors.Builds},
	{policy.ImportFails, besideNodes, false, mirrors.Imports},
	{policy.PullThroughFails, besideNodes, false, mirrors.PullThrough},
}

// isLoss reports whether f says that an image is lost.
func isLoss(f policy.Finding) bool {
	return f.Severity > policy.Info && (f.Rule == policy.PinnedImageMissing || slices.ContainsFunc(rules, func(r rule) bool { return r.id == f.Rule && r.loss }))
}

// A wholeRule objects to a change, or to the configuration in force, as a whole: its findings speak of the configuration, or
// of images whatever their routes.
type wholeRule[P plan.ChangePlan | plan.Plan] struct {
	id    string
	check func(P, policy.Facts) []policy.Finding
	// unseen is set if findings stand for unknown images. As there may
	// be protected ones among them, only RULE@protected weakens a denial.
	unseen bool
	// ongoing is set where a warning is about the configuration in force. No setting turns it into a
	// denial, which would block the very repair.
	ongoing bool
}

// changeRules are the rules for a change as a whole.
var changeRules = []wholeRule[plan.ChangePlan]{
	{id: policy.RejectedByMCO, check: rejectedByMCO, ongoing: true},
	{id: policy.FollowedAtOnce, check: followedAtOnce, ongoing: true},
	{id: policy.Unverified, check: tooMuchToJudge, unseen: true, ongoing: true},
	{id: policy.Unverified, check: unknownCAs, unseen: true},
	{id: policy.InventoryStale, check: inventoryStale, unseen: true},
	{id: policy.MalformedReference, check: func(p plan.ChangePlan, _ policy.Facts) []policy.Finding { return malformedReference(p.Plan, nil) }},
	{id: policy.ImportFails, check: importRefused},
	{id: policy.NoEffect, check: noEffect},
	{id: policy.BroadSource, check: broadSource},
	{id: policy.MirrorInCluster, check: mirrorInCluster},
	{id: policy.PinnedImageMissing, check: pinnedImageMissing},
}

// inForceRules are those of them for the configuration in force.
var inForceRules = []wholeRule[plan.Plan]{
	{id: policy.RejectedByMCO, check: rejectedInForce, ongoing: true},
	{id: policy.Unverified, check: tooMuchInForce, unseen: true, ongoing: true},
	{id: policy.MalformedReference, check: malformedReference},
}

// deletionRules are those of them for a deletion at registries, to which more than the known images may fall.
var deletionRules = append([]wholeRule[plan.Plan]{
	{id: policy.InventoryStale, check: func(p plan.Plan, _ policy.Facts) []policy.Finding { return stale(p, false) }, unseen: true},
}, inForceRules...)

// find returns the findings of r, with the severities of the settings.
func (r wholeRule[P]) find(p P, s settings.Settings, facts policy.Facts) []policy.Finding {
	findings := r.check(p, facts)
	for i := range findings {
		f := &findings[i]
		f.Rule = r.id
		settled := s.ForWhole().Settle(*f, r.unseen)
		if r.ongoing && f.Severity < policy.Deny && settled.Severity >= f.Severity {
			continue
		}
		*f = settled
	}
	return findings
}

// IDs returns the ids of all rules, each once, in order. The severity of each can be set.
func IDs() []string {
	ids := convert.Each(rules, func(r rule) string { return r.id })
	for _, r := range changeRules {
		if !slices.Contains(ids, r.id) {
			ids = append(ids, r.id)
		}
	}
	for _, r := range forecast.ForecastRules {
		ids = append(ids, r.Id)
	}
	return ids
}

// IsRule reports whether id is that of a rule.
func IsRule(id string) bool { return slices.Contains(IDs(), id) }
