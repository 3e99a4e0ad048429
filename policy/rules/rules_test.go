package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

func severities(rule string, severity policy.Severity) settings.Settings {
	return settings.Settings{Severities: map[string]policy.Severity{rule: severity}}
}

// TestRuleIDs: each rule has an id of its own, and every finding that there is obeys the
// settings.
func TestRuleIDs(t *testing.T) {
	want := []string{
		policy.RewriteError, policy.NoRoute, policy.MirrorHidden, policy.SignatureMissing, policy.SignatureRejected, policy.SignatureUnreadable, policy.NotFullySynced, policy.ContentMismatch, policy.BlobsMissing, policy.ImageMissing, policy.CredentialsMissing,
		policy.Unverified, policy.UnverifiedInFront, policy.PlatformMissing, policy.BlockLifted, policy.AnotherImage, policy.TagDrift, policy.RescueMissing, policy.BuildFails, policy.ImportFails, policy.PullThroughFails,
		policy.RejectedByMCO, policy.FollowedAtOnce, policy.InventoryStale, policy.MalformedReference, policy.NoEffect, policy.BroadSource, policy.MirrorInCluster, policy.PinnedImageMissing,
		policy.RolloutStalls, policy.DrainLosesPod, policy.DrainBlocked, policy.RolloutBusy, policy.PoolPaused,
	}
	if diff := cmp.Diff(want, IDs()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, id := range IDs() {
		if text := TextOf(id); text.Severity == "" || text.Says == "" {
			t.Errorf("%s has no text", id)
		}
	}
	if len(ruleTexts) != len(want) || IsRule("RejectedByMco") || !IsRule(policy.MalformedReference) {
		t.Errorf("%d texts of %d rules, or ids are not told apart by their case", len(ruleTexts), len(want))
	}
}

// TestRejectedByMCOBySetting: who admits what MCO rejects still hears what would come of it
// once it is applied.
func TestRejectedByMCOBySetting(t *testing.T) {
	good, bad := idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")
	other := set(good, bad, itms("c", "quay.io/x", never, "n.local/x"))
	warn := severities(policy.RejectedByMCO, policy.Warn)
	ok := facts("m.local/x:1 present", "quay.io/x:1 present")
	testDecisions(t, []decision{
		{"by default", set(good), set(good, bad), tag, ok, settings.Settings{}, "deny RejectedByMCO"},
		{"a setting that says the same", set(good), set(good, bad), tag, ok, severities(policy.RejectedByMCO, policy.Deny), "deny RejectedByMCO"},
		{"admitted, and the mirror has the image", set(good), set(good, bad), tag, ok, warn, "warn RejectedByMCO"},
		{"admitted, and nobody wants to hear of it", set(good), set(good, bad), tag, ok, severities(policy.RejectedByMCO, policy.Info), "info RejectedByMCO"},
		{"the mirror lacks the image", set(good), set(good, bad), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), warn, "deny NotFullySynced, warn RejectedByMCO"},
		{"too large for a MachineConfig", set(), set(longSources(500, 800)), tag, nil, warn, "warn RejectedByMCO"},
		{"a mirror that nodes could not read", set(), set(itms("a", "quay.io", allow, "m.local/%")), tag, nil, warn, "deny RewriteError, warn RejectedByMCO"},
		{"not even the generator knows what to make of it", set(), set(itms("a", "https://quay.io", allow, "m.local")), tag, nil, warn, "warn RejectedByMCO"},
		{"no setting holds up what repairs it", set(good, bad), set(good), tag, facts("quay.io/x:1 present"), severities(policy.RejectedByMCO, policy.Deny), "warn RejectedByMCO"},
		{"nor another change beside it", set(good, bad), other, tag, facts("m.local/x:1 present", "n.local/x:1 present"), severities(policy.RejectedByMCO, policy.Deny), "warn RejectedByMCO, warn MirrorHidden"},
	})
}

// TestUnverifiedBySetting: what is too large to be judged may hold protected images, so
// that only who weakens the rule for these lets it pass.
func TestUnverifiedBySetting(t *testing.T) {
	many := make([]configv1.ImageMirror, mirrors.MaxMirrors+1)
	for i := range many {
		many[i] = "m.local"
	}
	large := itms("large", "quay.io", allow, many...)
	protected := severities(policy.Unverified+"@protected", policy.Warn)
	testDecisions(t, []decision{
		{"for others", set(), set(large), tag, nil, severities(policy.Unverified, policy.Warn), "deny Unverified"},
		{"for protected images", set(), set(large), tag, nil, protected, "warn Unverified"},
		{"no setting holds up the way back", set(large), set(), tag, nil, severities(policy.Unverified, policy.Deny), "warn Unverified"},
	})
}

// TestMalformedReferenceBySetting: a reference that no node can parse is no image that a
// change reroutes.
func TestMalformedReferenceBySetting(t *testing.T) {
	malformed := "Quay.io/X:1"
	change := policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}
	testDecisions(t, []decision{
		{"not to hear of it", change.Before, change.After, malformed, nil, severities(policy.MalformedReference, policy.Info), "info MalformedReference"},
		{"to have it mended first", change.Before, change.After, malformed, nil, severities(policy.MalformedReference, policy.Deny), "deny MalformedReference"},
	})
}

// TestLosses: an alarm is about what mirrors have lost, not about what could not be told.
func TestLosses(t *testing.T) {
	var losses []string
	for _, id := range IDs() {
		if isLoss(policy.Finding{Rule: id, Severity: policy.Warn}) {
			losses = append(losses, id)
		}
		if isLoss(policy.Finding{Rule: id}) {
			t.Errorf("%s is a loss though nobody wants to hear of it", id)
		}
	}
	want := []string{policy.RewriteError, policy.NoRoute, policy.SignatureMissing, policy.SignatureRejected, policy.NotFullySynced, policy.ContentMismatch, policy.BlobsMissing, policy.ImageMissing, policy.CredentialsMissing, policy.PlatformMissing, policy.BuildFails, policy.PinnedImageMissing}
	if !slices.Equal(losses, want) {
		t.Errorf("losses %v, want %v", losses, want)
	}
}
