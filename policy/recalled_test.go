package policy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestRecalled: what a miss is worth that was learned a minute ago, and where it has to be
// asked for again.
func TestRecalled(t *testing.T) {
	const ref = "quay.io/x:1"
	missed := &Fact{Presence: Absent, Recalled: true}
	gone, found := &Fact{Presence: Absent}, &Fact{Presence: Present}
	none := set()
	also := set(itms("a", "quay.io", allow, "m.local"))
	only := set(itms("a", "quay.io", never, "m.local"))
	two := set(itms("a", "quay.io", allow, "first.local", "m.local"))
	old := set(itms("a", "quay.io", never, "old.local"))
	for _, tc := range []struct {
		reason        string
		before, after mirrors.Set
		facts         map[string]*Fact
		want          Severity
		decisive      []string
	}{
		{
			"long gone, by what both routes end with", none, also,
			map[string]*Fact{"m.local/x:1": missed, "quay.io/x:1": missed},
			Warn, nil,
		},
		{
			"nodes do not ask the source any more: it may be there by now", none, only,
			map[string]*Fact{"m.local/x:1": missed, "quay.io/x:1": missed},
			Deny,
			[]string{"m.local/x:1", "quay.io/x:1"},
		},
		{
			"it is not there: a denial is no longer needed", none, only,
			map[string]*Fact{"m.local/x:1": missed, "quay.io/x:1": gone},
			Warn, nil,
		},
		{
			"the old mirror may have it by now", old, only,
			map[string]*Fact{"m.local/x:1": gone, "old.local/x:1": missed},
			Deny,
			[]string{"old.local/x:1"},
		},
		{
			"the new mirror may have it by now", none, also,
			map[string]*Fact{"m.local/x:1": missed, "quay.io/x:1": found},
			Deny,
			[]string{"m.local/x:1"},
		},
		{
			"a mirror in front may have something else by now", none, two,
			map[string]*Fact{"first.local/x:1": missed, "m.local/x:1": found},
			Warn,
			[]string{"first.local/x:1"},
		},
		{
			"a mirror that ends every pull, before a source that may have it by now", none, also,
			map[string]*Fact{"m.local/x:1": {Presence: Mismatch}, "quay.io/x:1": missed},
			Deny,
			[]string{"quay.io/x:1"},
		},
		{
			"a mirror that may do so", none, also,
			map[string]*Fact{"m.local/x:1": {Presence: Unreachable}, "quay.io/x:1": missed},
			Deny,
			[]string{"quay.io/x:1"},
		},
		{
			"nothing is recalled", none, only,
			map[string]*Fact{"m.local/x:1": gone, "quay.io/x:1": found},
			Deny, nil,
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			plan := shallow(Change{tc.before, tc.after}, []Image{{ref, consumers()}}, Settings{})
			known := Facts{}
			for ref, f := range tc.facts {
				f.AsNodes = true
				known[mirrors.Location{Ref: ref}] = f
			}
			worst := Info
			for _, f := range plan.Decide(known).Findings {
				worst = max(worst, f.Severity)
			}
			if worst != tc.want {
				t.Errorf("severity %v, want %v: %+v", worst, tc.want, plan.Decide(known).Findings)
			}
			var decisive []string
			for _, l := range plan.Decisive(known) {
				decisive = append(decisive, l.Ref)
			}
			if diff := cmp.Diff(tc.decisive, decisive); diff != "" {
				t.Errorf("decisive: %s", diff)
			}
		})
	}
}

// TestDecisiveOrder: protected images come first, and a place that several need once.
func TestDecisiveOrder(t *testing.T) {
	shop, router := consumers(), consumers(func(u *Consumer) { u.Namespace = "openshift-ingress" })
	plan := shallow(Change{set(), set(itms("a", "quay.io", never, "m.local"))}, []Image{{"quay.io/a:1", shop}, {"quay.io/b:latest", router}, {"quay.io/b", shop}}, Settings{})
	known := Facts{}
	for _, ref := range []string{"m.local/a:1", "m.local/b:latest", "quay.io/a:1", "quay.io/b:latest"} {
		known[mirrors.Location{Ref: ref}] = &Fact{Presence: Absent, Recalled: true}
	}
	var decisive []string
	for _, l := range plan.Decisive(known) {
		decisive = append(decisive, l.Ref)
	}
	if diff := cmp.Diff([]string{"m.local/b:latest", "quay.io/b:latest", "m.local/a:1", "quay.io/a:1"}, decisive); diff != "" {
		t.Error(diff)
	}
}

// TestDecisivePlatforms: what is recalled of the second step, in which the manifest is read,
// is asked for again as well.
func TestDecisivePlatforms(t *testing.T) {
	read := mirrors.Location{Ref: "m.local/x:1", Depth: mirrors.DepthManifest}
	plan := newPlan(Change{set(), set(itms("a", "quay.io", allow, "m.local"))}, Cluster{Images: NewImages([]Image{{tag, consumers()}}...), Nodes: nodesOf(twoPlatforms)}, Settings{})
	known := facts("m.local/x:1 present", "quay.io/x:1 present")
	known[read] = &Fact{Presence: Absent, Recalled: true}
	if got := plan.Decisive(known); !slices.Equal(got, []mirrors.Location{read}) {
		t.Errorf("decisive: %v", got)
	}
}

// TestDecisiveSignatures: whoever has just copied a signature is not told of the miss from before.
func TestDecisiveSignatures(t *testing.T) {
	signed := signedBy(release, "quay.io/x")
	change := Change{withPolicies(signed), withPolicies(signed, itms("a", "quay.io", allow, "m.local"))}
	for _, found := range []string{"absent", "signed m.local/x:1"} {
		plan := shallow(change, []Image{{tag, consumers()}}, Settings{})
		facts := shop("m.local/x:1 present", "m.local/x sumA "+found, "quay.io/x:1 present", "quay.io/x sumA signed quay.io/x:1")
		at, _ := mirrors.Location{Ref: "m.local/x:1"}.Signatures(sumA)
		if got := plan.Decisive(facts); len(got) != 0 {
			t.Errorf("%s: %v are asked for again, though none is old", found, got)
		}
		facts[at].Recalled = true
		if got := plan.Decisive(facts); !slices.Equal(got, []mirrors.Location{at}) {
			t.Errorf("%s: got %v, want %v", found, got, at)
		}
	}
}
