package review

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
)

// TestSimulationNeverPromises: a course that was cut short, or of which nobody knows how it
// ends, is not said to get through, in words or as JSON.
func TestSimulationNeverPromises(t *testing.T) {
	for name, tt := range map[string]struct {
		result   simulation.Result
		finishes bool
	}{
		"all is known":                 {simulation.Result{}, true},
		"time was up":                  {simulation.Result{Partial: true}, false},
		"the best course is not known": {simulation.Result{Best: simulation.Course{Undecided: true}, Worst: simulation.Course{Stalls: []simulation.Stall{{Node: "a", Pod: "shop/cart", Budgets: []string{"shop/cart"}, Why: "1 pod has to be ready"}}}}, false},
	} {
		r := Record{Forecast: &policy.Forecast{Simulation: &tt.result}}
		if got := strings.Contains(r.Simulation(), "All nodes are updated."); got != tt.finishes {
			t.Errorf("%s: the text says %t, want %t:\n%s", name, got, tt.finishes, r.Simulation())
		}
		if got := r.Document().Forecast.Simulation.Best.Finishes; got != tt.finishes {
			t.Errorf("%s: the document says %t, want %t", name, got, tt.finishes)
		}
	}
	unread := simulation.Result{Unknown: []string{"poddisruptionbudgets"}}
	if forecastDocument(&policy.Forecast{Simulation: &unread}).Simulation.Worst.Finishes {
		t.Error("budgets could not be read, and it is said to finish")
	}
}

// TestAssuredIsTold: where a rollout may stall sooner than it was simulated.
func TestAssuredIsTold(t *testing.T) {
	result := simulation.Result{Worst: simulation.Course{
		Steps:   []simulation.Step{{Pool: "worker", Node: "a", Updated: true}, {Pool: "worker", Node: "b", Updated: true}},
		Stalls:  []simulation.Stall{{Pool: "worker", Node: "c", Pod: "shop/cart", Budgets: []string{"shop/cart"}}},
		Assured: []simulation.Assured{{Pool: "infra", Updated: 2, Of: 2}, {Pool: "worker", Updated: 1, Of: 3}},
	}}
	r := Record{Forecast: &policy.Forecast{Simulation: &result}}
	if want := "     Wherever pods go, pool infra updates all of its nodes; pool worker updates at least 1 of 3 nodes.\n"; !strings.Contains(r.Simulation(), want) {
		t.Errorf("no %q in\n%s", want, r.Simulation())
	}
	if got := r.Document().Forecast.Simulation.Worst.Assured; len(got) != 2 {
		t.Errorf("in the document: %v", got)
	}
}
