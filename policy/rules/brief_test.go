package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// widePlan returns a random plan of n images.
func widePlan(rng *rand.Rand, n int) plan.ChangePlan {
	w, images := randomKnowable(rng), []policy.Image(nil)
	for k := range n {
		image := randomKnowable(rng).image
		image.Ref = fmt.Sprint("quay.io/x:", k)
		images = append(images, image)
	}
	return newPlan(w.change, plan.Cluster{Images: policy.NewImages(images...), Nodes: nodesOf(w.platforms)}, settings.Settings{})
}

func randomAnswer(rng *rand.Rand) *policy.Fact {
	return &policy.Fact{Presence: []policy.Presence{policy.Present, policy.Absent, policy.Absent, policy.Denied, policy.Unreachable}[rng.IntN(5)], AsNodes: rng.IntN(4) > 0}
}

// TestDecideInBrief: a verdict in brief is that in full, but for Detail and Remedy of the findings about
// images that are not among the first.
func TestDecideInBrief(t *testing.T) {
	const worlds, most = 500, 8
	rng := rand.New(rand.NewPCG(22, 5))
	cut := 0
	for n := range worlds {
		plan := widePlan(rng, most)
		facts := policy.Facts{}
		for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
			for _, l := range lookups {
				facts[l] = randomAnswer(rng)
			}
		}
		whole := Decide(plan, facts)
		for told := range most + 1 {
			brief := DecideInBrief(plan, facts, told)
			for i := range brief.Findings {
				of, f := &brief.Findings[i], whole.Findings[i]
				if i >= told && of.Image.Ref != "" && of.Detail == nil && of.Remedy == nil && (f.Detail != nil || f.Remedy != nil) {
					of.Detail, of.Remedy, of.Copy = f.Detail, f.Remedy, f.Copy
					cut++
				}
			}
			if !reflect.DeepEqual(whole, brief) {
				t.Fatalf("world %d, %d told of: -in full +in brief:\n%s", n, told, cmp.Diff(whole, brief))
			}
		}
	}
	t.Logf("%d findings in brief", cut)
	if cut < worlds {
		t.Errorf("%d findings are in brief, want more than %d", cut, worlds)
	}
}

// TestLookupParts: what the parts of a plan look up, each by itself, is what the plan does, so that the decision is the same.
func TestLookupParts(t *testing.T) {
	const worlds, most = 500, 8
	rng := rand.New(rand.NewPCG(28, 2))
	divided := 0
	for n := range worlds {
		plan := widePlan(rng, most)
		answers := policy.Facts{}
		ask := func(next func(policy.Facts) []mirrors.Location) policy.Facts {
			facts := policy.Facts{}
			for lookups := next(facts); len(lookups) > 0; lookups = next(facts) {
				for _, l := range lookups {
					if answers[l] == nil {
						answers[l] = randomAnswer(rng)
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
