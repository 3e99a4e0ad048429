package rules

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// TestDecideInBrief: a verdict in brief is that in full, but for Detail and Remedy of the findings about
// images that are not among the first.
func TestDecideInBrief(t *testing.T) {
	const worlds, most = 500, 8
	rng := rand.New(rand.NewPCG(22, 5))
	cut := 0
	for n := range worlds {
		w, images := randomKnowable(rng), []policy.Image(nil)
		for k := range most {
			image := randomKnowable(rng).image
			image.Ref = fmt.Sprint("quay.io/x:", k)
			images = append(images, image)
		}
		plan := newPlan(w.change, plan.Cluster{Images: policy.NewImages(images...), Nodes: nodesOf(w.platforms)}, settings.Settings{})
		facts := policy.Facts{}
		for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
			for _, l := range lookups {
				facts[l] = &policy.Fact{Presence: []policy.Presence{policy.Present, policy.Absent, policy.Absent, policy.Denied, policy.Unreachable}[rng.IntN(5)], AsNodes: rng.IntN(4) > 0}
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
