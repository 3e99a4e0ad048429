package policy

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
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
			consumers []Consumer
			facts     Facts
			want      string
		}{
			{consumers(), nowhere, "warn RejectedByMCO, warn ImageMissing"},
			{consumers(isRouter), nowhere, "deny ImageMissing, warn RejectedByMCO"},
			{consumers(), facts("n.local/x:1 absent", "quay.io/x:1 unreachable", "m.local/x:1 absent"), "deny ImageMissing, warn RejectedByMCO"},
			{consumers(withSecret), nowhere, "deny ImageMissing, warn RejectedByMCO"},
		} {
			got := shallow(Change{before, mend.Apply(before)}, []Image{{tag, tc.consumers}}, Settings{}).Decide(tc.facts)
			if summary(got) != tc.want {
				t.Errorf("%v: got %q, want %q", tc.consumers, summary(got), tc.want)
			}
		}
	})
	for _, tt := range []struct {
		name   string
		before mirrors.Set
		edit   mirrors.Edit
		facts  Facts
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
			got := shallow(Change{tt.before, tt.edit.Apply(tt.before)}, []Image{{tag, running}}, Settings{}).Decide(tt.facts)
			if summary(got) != tt.want {
				t.Errorf("got %q, want %q\n%s", summary(got), tt.want, got.Report("it"))
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
		c := Change{tt.before, mirrors.Delete(idms("two", "", allow)).Apply(tt.before)}
		if got := summary(NewPlan(c, Cluster{Gaps: podGap}, Settings{}).Decide(nil)); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// The standing verification looks where nodes look.
func TestStandingOfApplied(t *testing.T) {
	p := shallower(NewStanding(stuck(appliedQuay, itms("held-up", "quay.io", allow, "n.local")), Cluster{Images: NewImages([]Image{{tag, running}}...)}, Settings{}))
	if got := p.StandingLookups(nil); len(got) != 1 || got[0].Ref != "m.local/x:1" {
		t.Errorf("lookups %v", got)
	}
}
