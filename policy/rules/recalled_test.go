package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestRecalled: what a miss is worth that was learned a minute ago, and where it has to be
// asked for again.
func TestRecalled(t *testing.T) {
	const ref = "quay.io/x:1"
	missed := &policy.Fact{Presence: policy.Absent, Recalled: true}
	gone, found := &policy.Fact{Presence: policy.Absent}, &policy.Fact{Presence: policy.Present}
	none := set()
	also := set(itms("a", "quay.io", allow, "m.local"))
	only := set(itms("a", "quay.io", never, "m.local"))
	two := set(itms("a", "quay.io", allow, "first.local", "m.local"))
	old := set(itms("a", "quay.io", never, "old.local"))
	for _, tc := range []struct {
		reason        string
		before, after mirrors.Set
		facts         map[string]*policy.Fact
		want          policy.Severity
		decisive      []string
	}{
		{
			"long gone, by what both routes end with", none, also,
			map[string]*policy.Fact{"m.local/x:1": missed, "quay.io/x:1": missed},
			policy.Warn, nil,
		},
		{
			"nodes do not ask the source any more: it may be there by now", none, only,
			map[string]*policy.Fact{"m.local/x:1": missed, "quay.io/x:1": missed},
			policy.Deny,
			[]string{"m.local/x:1", "quay.io/x:1"},
		},
		{
			"it is not there: a denial is no longer needed", none, only,
			map[string]*policy.Fact{"m.local/x:1": missed, "quay.io/x:1": gone},
			policy.Warn, nil,
		},
		{
			"the old mirror may have it by now", old, only,
			map[string]*policy.Fact{"m.local/x:1": gone, "old.local/x:1": missed},
			policy.Deny,
			[]string{"old.local/x:1"},
		},
		{
			"the new mirror may have it by now", none, also,
			map[string]*policy.Fact{"m.local/x:1": missed, "quay.io/x:1": found},
			policy.Deny,
			[]string{"m.local/x:1"},
		},
		{
			"a mirror in front may have something else by now", none, two,
			map[string]*policy.Fact{"first.local/x:1": missed, "m.local/x:1": found},
			policy.Warn,
			[]string{"first.local/x:1"},
		},
		{
			"a mirror that ends every pull, before a source that may have it by now", none, also,
			map[string]*policy.Fact{"m.local/x:1": {Presence: policy.Mismatch}, "quay.io/x:1": missed},
			policy.Deny,
			[]string{"quay.io/x:1"},
		},
		{
			"a mirror that may do so", none, also,
			map[string]*policy.Fact{"m.local/x:1": {Presence: policy.Unreachable}, "quay.io/x:1": missed},
			policy.Deny,
			[]string{"quay.io/x:1"},
		},
		{
			"a mirror that strangers do not see it at", none, also,
			map[string]*policy.Fact{"m.local/x:1": {Presence: policy.Absent, Detail: "asked as strangers ask"}, "quay.io/x:1": missed},
			policy.Deny,
			[]string{"quay.io/x:1"},
		},
		{
			"it may be there by now, and has to be signed from now on", none, withPolicies(signedBy(release, "quay.io/x")),
			map[string]*policy.Fact{"quay.io/x:1": missed},
			policy.Deny,
			[]string{"quay.io/x:1"},
		},
		{
			"nothing is recalled", none, only,
			map[string]*policy.Fact{"m.local/x:1": gone, "quay.io/x:1": found},
			policy.Deny, nil,
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			plan := shallow(policy.Change{Before: tc.before, After: tc.after}, []policy.Image{{Ref: ref, Consumers: consumers()}}, settings.Settings{})
			known := policy.Facts{}
			for ref, f := range tc.facts {
				f.AsNodes = f.Detail == ""
				known[mirrors.Location{Ref: ref}] = f
			}
			worst := policy.Info
			for _, f := range Decide(plan, known).Findings {
				worst = max(worst, f.Severity)
			}
			if worst != tc.want {
				t.Errorf("severity %v, want %v: %+v", worst, tc.want, Decide(plan, known).Findings)
			}
			if diff := cmp.Diff(tc.decisive, refsOf(Decisive(plan.Plan, known))); diff != "" {
				t.Errorf("decisive: %s", diff)
			}
		})
	}
}

// TestDecisiveOrder: protected images come first, and a place that several need once. What both routes of an application end
// with need not be known.
func TestDecisiveOrder(t *testing.T) {
	shop, router := consumers(), consumers(func(u *policy.Consumer) { u.Namespace = "openshift-ingress" })
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"), itms("b", "r.io", allow, "m.local"))},
		[]policy.Image{{Ref: "quay.io/a:1", Consumers: shop}, {Ref: "quay.io/b:latest", Consumers: router}, {Ref: "quay.io/b", Consumers: shop}, {Ref: "r.io/c:1", Consumers: router}, {Ref: "r.io/d:1", Consumers: shop}}, settings.Settings{})
	known := policy.Facts{}
	for _, ref := range []string{"m.local/a:1", "m.local/b:latest", "m.local/c:1", "m.local/d:1", "quay.io/a:1", "quay.io/b:latest", "r.io/c:1", "r.io/d:1"} {
		known[mirrors.Location{Ref: ref}] = &policy.Fact{Presence: policy.Absent, AsNodes: true, Recalled: true}
	}
	if diff := cmp.Diff([]string{"m.local/b:latest", "quay.io/b:latest", "m.local/c:1", "r.io/c:1", "m.local/a:1", "quay.io/a:1"}, refsOf(Decisive(plan.Plan, known))); diff != "" {
		t.Error(diff)
	}
}

// TestDecisivePlatforms: what is recalled of the second step, in which the manifest is read,
// is asked for again as well.
func TestDecisivePlatforms(t *testing.T) {
	read := mirrors.Location{Ref: "m.local/x:1", Depth: mirrors.DepthManifest}
	plan := newPlan(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}, plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tag, Consumers: consumers()}}...), Nodes: nodesOf(twoPlatforms)}, settings.Settings{})
	known := facts("m.local/x:1 present", "quay.io/x:1 present")
	known[read] = &policy.Fact{Presence: policy.Absent, Recalled: true}
	if got := Decisive(plan.Plan, known); !slices.Equal(got, []mirrors.Location{read}) {
		t.Errorf("decisive: %v", got)
	}
}

// TestDecisiveSignatures: whoever has just copied a signature is not told of the miss from before.
func TestDecisiveSignatures(t *testing.T) {
	signed := signedBy(release, "quay.io/x")
	change := policy.Change{Before: withPolicies(signed), After: withPolicies(signed, itms("a", "quay.io", allow, "m.local"))}
	for _, found := range []string{"absent", "signed m.local/x:1"} {
		plan := shallow(change, []policy.Image{{Ref: tag, Consumers: consumers()}}, settings.Settings{})
		facts := shop("m.local/x:1 present", "m.local/x sumA "+found, "quay.io/x:1 present", "quay.io/x sumA signed quay.io/x:1")
		at, _ := mirrors.Location{Ref: "m.local/x:1"}.Signatures(sumA)
		if got := Decisive(plan.Plan, facts); len(got) != 0 {
			t.Errorf("%s: %v are asked for again, though none is old", found, got)
		}
		facts[at].Recalled = true
		if got := Decisive(plan.Plan, facts); !slices.Equal(got, []mirrors.Location{at}) {
			t.Errorf("%s: got %v, want %v", found, got, at)
		}
	}
}
