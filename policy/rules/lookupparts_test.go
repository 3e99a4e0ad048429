package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestLookupParts: what the parts of a plan look up, each by itself, is what the plan does, so that the decision is the same.
func TestLookupParts(t *testing.T) {
	const worlds, most = 500, 8
	rng := rand.New(rand.NewPCG(28, 2))
	divided := 0
	for n := range worlds {
		w, images := randomKnowable(rng), []policy.Image(nil)
		for k := range most {
			image := randomKnowable(rng).image
			image.Ref = fmt.Sprint("quay.io/x:", k)
			images = append(images, image)
		}
		plan := newPlan(w.change, plan.Cluster{Images: policy.NewImages(images...), Nodes: nodesOf(w.platforms)}, settings.Settings{})
		answers := policy.Facts{}
		ask := func(next func(policy.Facts) []mirrors.Location) policy.Facts {
			facts := policy.Facts{}
			for lookups := next(facts); len(lookups) > 0; lookups = next(facts) {
				for _, l := range lookups {
					if answers[l] == nil {
						answers[l] = &policy.Fact{Presence: []policy.Presence{policy.Present, policy.Absent, policy.Absent, policy.Denied, policy.Unreachable}[rng.IntN(5)], AsNodes: rng.IntN(4) > 0}
					}
					facts[l] = answers[l]
				}
			}
			return facts
		}
		whole, parts := ask(plan.Lookups), policy.Facts{}
		for _, next := range plan.LookupParts(1 + rng.IntN(most)) {
			maps.Copy(parts, ask(next))
			divided++
		}
		for _, l := range slices.Collect(maps.Keys(whole)) {
			if parts[l] != whole[l] {
				t.Fatalf("world %d: the parts do not ask for %v", n, l)
			}
		}
		if a, b := Decide(plan, whole), Decide(plan, parts); a.Allowed != b.Allowed || len(a.Findings) != len(b.Findings) || a.Counts != b.Counts {
			t.Fatalf("world %d: whole: %+v, in parts: %+v", n, a.Counts, b.Counts)
		}
	}
	if divided < worlds {
		t.Errorf("%d parts of %d plans", divided, worlds)
	}
}
