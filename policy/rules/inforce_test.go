package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

// stuck returns a configuration that MCO rejects, and has what others of s came with.
func stuck(applied string, others ...mirrors.Object) mirrors.Set {
	s := set(append([]mirrors.Object{itms("one", "quay.io/shop", never, "m.local/shop"), idms("two", "quay.io/shop", allow, "m.local/shop")}, others...)...)
	if applied != "" {
		s.Applied = &mirrors.Applied{Files: map[string][]byte{mirrors.RegistriesConfPath: []byte(applied)}}
	}
	return s
}

const appliedQuay = "[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"m.local\"\n"

// TestMending: what lets loose a configuration that was held up is compared with what nodes
// have. Where that is not known, nothing is taken for granted.
func TestMending(t *testing.T) {
	mend := mirrors.Delete(idms("two", "", allow))
	bad := itms("bad", "quay.io", allow, "n.local")
	nowhere := facts("n.local/x:1 absent", "quay.io/x:1 absent", "m.local/x:1 absent")
	t.Run("dead everywhere", func(t *testing.T) {
		before := stuck("", bad)
		for _, tc := range []struct {
			consumers []policy.Consumer
			facts     policy.Facts
			want      string
		}{
			{consumers(), nowhere, "warn RejectedByMCO, warn ImageMissing"},
			{consumers(isRouter), nowhere, "deny ImageMissing, warn RejectedByMCO"},
			{consumers(), facts("n.local/x:1 absent", "quay.io/x:1 unreachable", "m.local/x:1 absent"), "deny ImageMissing, warn RejectedByMCO"},
			{consumers(withSecret), nowhere, "deny ImageMissing, warn RejectedByMCO"},
		} {
			got := Decide(shallow(policy.Change{Before: before, After: mend.Apply(before)}, []policy.Image{{Ref: tag, Consumers: tc.consumers}}, settings.Settings{}), tc.facts)
			if summary(got) != tc.want {
				t.Errorf("%v: got %q, want %q", tc.consumers, summary(got), tc.want)
			}
		}
	})
	for _, tt := range []struct {
		name   string
		before mirrors.Set
		edit   mirrors.Edit
		facts  policy.Facts
		want   string
	}{
		{"nodes have the old mirror, the new one lacks the image", stuck(appliedQuay, bad), mend, facts("n.local/x:1 absent", "m.local/x:1 present", "quay.io/x:1 present"), "deny ImageMissing, warn RejectedByMCO"},
		{"nodes have the new mirror already", stuck(strings.ReplaceAll(appliedQuay, "m.local", "n.local"), bad), mend, nowhere, "warn RejectedByMCO"},
		{"nodes lose a mirror of which no object is left", stuck(appliedQuay), mend, facts("m.local/x:1 present", "quay.io/x:1 absent"), "deny ImageMissing, warn RejectedByMCO"},
		{"nodes could not pull it before", stuck(appliedQuay, bad), mend, nowhere, "warn RejectedByMCO, warn ImageMissing"},
		{"what nodes have is not known, nor that it was broken", stuck("", bad), mend, nowhere, "deny ImageMissing, warn RejectedByMCO"},
		{"it cannot be read", stuck("[", bad), mend, nowhere, "deny ImageMissing, warn RejectedByMCO"},
		{"it is not known, and the new one is good", stuck("", bad), mend, facts("n.local/x:1 present"), "warn RejectedByMCO"},
		{"what repairs it takes the mirror away as well", stuck("", bad), mirrors.Join(mend, mirrors.Delete(bad)), facts("n.local/x:1 present", "quay.io/x:1 absent"), "deny ImageMissing, warn RejectedByMCO"},
		{"MCO stays stuck: what is held up was there before", stuck(appliedQuay, bad), mirrors.Put(idms("three", "quay.io/y", allow, "m.local/y")), nowhere, "warn RejectedByMCO"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Decide(shallow(policy.Change{Before: tt.before, After: tt.edit.Apply(tt.before)}, []policy.Image{{Ref: tag, Consumers: running}}, settings.Settings{}), tt.facts)
			if summary(got) != tt.want {
				t.Errorf("got %q, want %q\n%s", summary(got), tt.want, words.Answer(got, "it"))
			}
		})
	}
}

// An inventory with gaps holds up what repairs the configuration, unless nodes keep all.
func TestMendingWithGaps(t *testing.T) {
	plain := "[[registry]]\nlocation = \"quay.io/shop\"\nblocked = true\n[[registry.mirror]]\nlocation = \"m.local/shop\"\npull-from-mirror = \"tag-only\"\n"
	for name, tt := range map[string]struct {
		before mirrors.Set
		want   string
	}{
		"nodes keep what they have": {stuck(plain), "warn RejectedByMCO"},
		"nodes have less":           {stuck("unqualified-search-registries = [\"registry.access.redhat.com\", \"docker.io\"]"), "deny InventoryStale, warn RejectedByMCO"},
		"nobody knows":              {stuck(""), "deny InventoryStale, warn RejectedByMCO"},
	} {
		c := policy.Change{Before: tt.before, After: mirrors.Delete(idms("two", "", allow)).Apply(tt.before)}
		if got := summary(Decide(newPlan(c, plan.Cluster{Gaps: podGap}, settings.Settings{}), nil)); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// The standing verification looks where nodes look.
func TestStandingOfApplied(t *testing.T) {
	p := shallower(plan.NewStanding(stuck(appliedQuay, itms("held-up", "quay.io", allow, "n.local")), plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tag, Consumers: running}}...)}, settings.Settings{}))
	if got := p.Lookups(nil); len(got) != 1 || got[0].Ref != "m.local/x:1" {
		t.Errorf("lookups %v", got)
	}
}

// TestInForceUnread: while MCO rejects the objects and what nodes have was not read, nothing is proved by what the objects say, nor by
// their saying nothing.
func TestInForceUnread(t *testing.T) {
	wild := set(itms("wild", "*.example.com", allow, "m.local"))
	wild.Registries.InsecureRegistries = []string{"a.example.com/x"}
	if _, err := mirrors.ResolveUnchecked(wild); err == nil {
		t.Fatal("there are routes for a wildcard source")
	}
	known := plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tag, Consumers: running}}...)}
	all := func(*mirrors.Route) bool { return true }
	none := func(*mirrors.PullSource) bool { return false }
	here := facts("m.local/x:1 present", "quay.io/x:1 present", "quay.io/shop/x:1 present")
	for name, tt := range map[string]struct {
		set     mirrors.Set
		unknown bool
	}{
		"it was read":       {stuck(appliedQuay), false},
		"it was not read":   {stuck(""), true},
		"it cannot be read": {stuck("["), true},
		"it was not read, and objects have no routes": {wild, true},
		"nothing is rejected":                         {set(itms("one", "quay.io", allow, "m.local")), false},
	} {
		t.Run(name, func(t *testing.T) {
			findings := DecideDeletion(shallower(plan.NewDeletion(tt.set, tt.set, known, settings.Settings{}, all)), here, here, none)
			denied := slices.ContainsFunc(findings, func(f policy.Finding) bool {
				return f.Rule == policy.InventoryStale && f.Severity == policy.Deny && slices.Equal(f.Remedy, []string{policy.ReadMachineConfigs})
			})
			if denied != tt.unknown {
				t.Errorf("deletion: denied: %v: %+v", denied, findings)
			}
			for of, plan := range map[string]plan.Plan{"standing": plan.NewStanding(tt.set, known, settings.Settings{}).Plan, "pulls": plan.NewPulls(tt.set, known, settings.Settings{})} {
				if got := len(plan.Gaps) > 0; got != tt.unknown {
					t.Errorf("%s: gaps %v", of, plan.Gaps)
				}
			}
		})
	}
	later := stuck("")
	if p := plan.NewDeletion(set(itms("one", "quay.io", allow, "m.local")), later, known, settings.Settings{}, all); len(p.Gaps) > 0 {
		t.Errorf("what MCO will reject says nothing of what nodes have today: %v", p.Gaps)
	}
}
