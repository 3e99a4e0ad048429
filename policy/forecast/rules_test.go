package forecast

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// TestStallOfNoImage: a stall that no one image accounts for is not said to be of "it".
func TestStallOfNoImage(t *testing.T) {
	f := &Forecast{Simulation: &simulation.Result{Stalls: []simulation.Stall{{Node: "a", ByImage: true}}}, pulls: &pullOutcomes{}}
	found := rolloutStalls(plan.Plan{}, f)
	if len(found) != 1 || found[0].Reason != "the rollout may stall at a, and would not if every image could be pulled everywhere" || len(found[0].Remedy) != 1 || !strings.HasPrefix(found[0].Remedy[0], "mirrorset-guard check -f FILE --simulate ") {
		t.Errorf("%+v", found)
	}
}
