package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

var podGap = []policy.Gap{{Source: "pods", Kind: "Pod", Detail: "out of reach for 5m0s: connection refused"}}

func registryLists(s mirrors.Set, lists configv1.RegistrySources) mirrors.Set {
	s.Registries = lists
	return s
}

// No image is known here: what counts is what may be hidden in the gap.
func TestGaps(t *testing.T) {
	fallback := settings.Settings{AllowSourceFallback: true}
	quay := func(locations ...configv1.ImageMirror) mirrors.Set {
		return set(itms("a", "quay.io", allow, locations...))
	}
	blocked := configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}
	allowed := configv1.RegistrySources{AllowedRegistries: []string{"quay.io"}}
	for _, tt := range []struct {
		name          string
		before, after mirrors.Set
		settings      settings.Settings
		want          string
	}{
		{"a first mirror is a promise that nobody can verify", set(), quay("m.local"), settings.Settings{}, "deny InventoryStale"},
		{"a first mirror for a repository alone", set(), set(idms("a", "quay.io/team/app", allow, "m.local/app")), settings.Settings{}, "deny InventoryStale"},
		{"a first mirror for a wildcard", set(), set(itms("a", "*.example.com", allow, "m.local/x")), settings.Settings{}, "deny InventoryStale"},
		{"a first mirror while mirrors fill, by setting", set(), quay("m.local"), fallback, "warn InventoryStale"},
		{"NeverContactSource takes the source away, whatever the setting", set(), set(itms("a", "quay.io", never, "m.local")), fallback, "deny InventoryStale"},
		{"Allow to Never", quay("m.local"), set(itms("a", "quay.io", never, "m.local")), settings.Settings{}, "deny InventoryStale"},
		{"Never to Allow opens a place and closes none", set(itms("a", "quay.io", never, "m.local")), quay("m.local"), settings.Settings{}, "warn InventoryStale"},
		{"a new mirror in front, where only mirrors are left", set(itms("a", "quay.io", never, "m.local")), set(itms("a", "quay.io", never, "n.local", "m.local")), settings.Settings{}, "deny InventoryStale"},
		{"a new mirror behind, where only mirrors are left", set(itms("a", "quay.io", never, "m.local")), set(itms("a", "quay.io", never, "m.local", "n.local")), settings.Settings{}, "warn InventoryStale"},
		{"a second mirror closes no place", quay("m.local"), quay("m.local", "n.local"), settings.Settings{}, "warn InventoryStale"},
		{"another mirror closes a place", quay("m.local"), quay("n.local"), settings.Settings{}, "deny InventoryStale"},
		{"a narrower set hides a wider mirror", quay("m.local"), set(itms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/team", allow, "n.local/team")), settings.Settings{}, "deny InventoryStale"},
		{"deleting closes a place, which may be the only one", quay("m.local"), set(), settings.Settings{}, "deny InventoryStale"},
		{"deleting a narrower set closes one as well", set(itms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/team", allow, "n.local/team")), quay("m.local"), settings.Settings{}, "deny InventoryStale"},
		{"deleting the exception below a wider Never blocks the source", set(itms("a", "quay.io", never, "m.local"), itms("b", "quay.io/team", allow, "m.local/team")), set(itms("a", "quay.io", never, "m.local")), settings.Settings{}, "deny InventoryStale"},
		{"a registry is blocked at the one port that no scope names", set(itms("a", "example.com:5000", allow, "m.local")), registryLists(set(itms("a", "example.com:5000", allow, "m.local")), configv1.RegistrySources{BlockedRegistries: []string{"example.com"}}), settings.Settings{}, "deny InventoryStale"},
		{"signatures are required", set(), withPolicies(signedBy("a", "quay.io")), settings.Settings{}, "deny InventoryStale"},
		{"in one namespace", set(), withPolicies(signedIn("shop", "a", "quay.io")), settings.Settings{}, "deny InventoryStale"},
		{"by another key", withPolicies(signedBy("a", "quay.io")), withPolicies(signedBy("b", "quay.io")), settings.Settings{}, "deny InventoryStale"},
		{"by one of a narrower scope in a namespace, which MCO skips", withPolicies(signedBy("a", "quay.io")), withPolicies(signedBy("a", "quay.io"), signedIn("shop", "b", "quay.io/shop")), settings.Settings{}, ""},
		{"signatures are required no more", withPolicies(signedBy("a", "quay.io")), set(), settings.Settings{}, ""},
		{"a new mirror in front of where they are required", withPolicies(signedBy("a", "quay.io"), idms("a", "quay.io", allow, "m.local")), withPolicies(signedBy("a", "quay.io"), idms("a", "quay.io", allow, "n.local", "m.local")), settings.Settings{}, "deny InventoryStale"},
		{"behind it", withPolicies(signedBy("a", "quay.io"), idms("a", "quay.io", allow, "m.local")), withPolicies(signedBy("a", "quay.io"), idms("a", "quay.io", allow, "m.local", "n.local")), fallback, "deny InventoryStale"},
		{"an object moves without any effect", quay("m.local"), set(itms("renamed", "quay.io", allow, "m.local")), settings.Settings{}, ""},
		{"an entry that is dropped has none either", quay("m.local"), set(itms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/team", never)), settings.Settings{}, "warn NoEffect"},
		{"nothing changes", quay("m.local"), quay("m.local"), settings.Settings{}, ""},
		{"a registry is blocked", set(), registryLists(set(), blocked), settings.Settings{}, "deny InventoryStale"},
		{"a registry is open again", registryLists(set(), blocked), set(), settings.Settings{}, "warn InventoryStale"},
		{"all registries but one are refused", set(), registryLists(set(), allowed), settings.Settings{}, "deny InventoryStale"},
		{"all registries are allowed again", registryLists(set(), allowed), set(), settings.Settings{}, "warn InventoryStale"},
		{"another search registry", set(), registryLists(set(), configv1.RegistrySources{ContainerRuntimeSearchRegistries: []string{"quay.io"}}), settings.Settings{}, "deny InventoryStale"},
		{"the rule's severity is a setting", set(), quay("m.local"), settings.Settings{Severities: map[string]policy.Severity{"InventoryStale@protected": policy.Warn}}, "warn InventoryStale"},
		{"an invalid set changes no route", set(), set(itms("a", "quay.io", allow, "m.local"), idms("b", "quay.io", never, "m.local")), settings.Settings{}, "deny RejectedByMCO"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := policy.Change{Before: tt.before, After: tt.after}
			got := Decide(newPlan(c, plan.Cluster{Gaps: podGap}, tt.settings), nil)
			if summary(got) != tt.want {
				t.Errorf("got %q, want %q", summary(got), tt.want)
			}
			// Whether places are kept is not known where it is not known which nodes have.
			for _, gap := range []policy.Gap{{Source: "machineconfigs", Kind: policy.MachineConfigKind, Unread: true}, {Source: "nodes", Kind: policy.NodeKind}} {
				blind := Decide(newPlan(c, plan.Cluster{Gaps: []policy.Gap{gap}}, tt.settings), nil)
				if strings.Contains(tt.want, "InventoryStale") && tt.settings.Severities == nil && blind.Allowed {
					t.Errorf("without %s: %q", gap, summary(blind))
				}
			}
			if got := Decide(newPlan(c, plan.Cluster{Gaps: []policy.Gap{}}, tt.settings), nil); cmp.Diff(Decide(newPlan(c, plan.Cluster{}, tt.settings), nil), got) != "" {
				t.Errorf("without a gap: got %q", summary(got))
			}
		})
	}
}

// TestGapsAreTold: where images may be hidden is told, and what else is wrong is not told at the cost of that. Of a dump that could
// not be read the advice is another one.
func TestGapsAreTold(t *testing.T) {
	c := policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}
	var gaps []policy.Gap
	for _, source := range []string{"pods", "jobs.batch", "c", "d", "e"} {
		gaps = append(gaps, policy.Gap{Source: source, Kind: "Pod", Detail: "away"})
	}
	pod := []policy.Consumer{{Kind: "Pod", Namespace: "shop", Name: "cart-1", Container: "app", Use: policy.Running}}
	decide := func(facts policy.Facts, s settings.Settings, consumers []policy.Consumer, gaps ...policy.Gap) policy.Verdict {
		return Decide(shallower(newPlan(c, plan.Cluster{Images: policy.NewImages(policy.Image{Ref: tag, Consumers: consumers}), Gaps: gaps}, s)), facts)
	}
	alone := decide(facts("m.local/x:1 present"), settings.Settings{}, pod, gaps[:2]...)
	if got := alone.Findings[0].Detail; summary(alone) != "deny InventoryStale" || len(got) != 3 || !strings.HasPrefix(got[0], "pods: ") || !strings.HasPrefix(got[1], "jobs.batch: ") || !strings.HasPrefix(got[2], "1 of ") {
		t.Errorf("%s: %q, want both, and how many images are known from there only", summary(alone), got)
	}
	many := decide(facts("m.local/x:1 absent", "quay.io/x:1 present"), settings.Settings{}, running, gaps...)
	if got := many.Findings[1].Detail; summary(many) != "deny ImageMissing, deny InventoryStale" || len(got) != 4 || !strings.Contains(got[3], "2 more") {
		t.Errorf("%s: %q, want three of five", summary(many), got)
	}
	weakened := decide(facts("m.local/x:1 present"), severities("InventoryStale@protected", policy.Warn), running, gaps...)
	if got := words.Warnings(weakened, "X"); len(got) != 2 || !strings.HasPrefix(got[1], "InventoryStale: ") {
		t.Errorf("%q", got)
	}
	stale := func(gaps ...policy.Gap) policy.Finding {
		return Decide(newPlan(c, plan.Cluster{Gaps: gaps}, settings.Settings{}), nil).Findings[0]
	}
	unread := policy.Gap{Source: "dump.yaml: document 2", Kind: "Pod", Detail: "no", Unread: true}
	live, dump, both := stale(gaps...), stale(unread), stale(unread, gaps[0])
	if dump.Rule != policy.InventoryStale || dump.Reason == live.Reason || slices.Equal(dump.Remedy, live.Remedy) || both.Reason != live.Reason {
		t.Errorf("%+v\n%+v\n%+v", live, dump, both)
	}
}

func BenchmarkGaps(b *testing.B) {
	c := policy.Change{Before: set(), After: manySources(500, 200)}
	for b.Loop() {
		newPlan(c, plan.Cluster{Gaps: podGap}, settings.Settings{})
	}
}
