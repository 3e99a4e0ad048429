package review

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/internal/answer"
	"github.com/mirrorset-guard/mirrorset-guard/policy/forecast"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/proof"
)

func told(r Record) string {
	a := answer.Answer{Blocks: r.Simulation()}
	return a.String()
}

// TestSimulationNeverPromises: a rollout whose end is not known is not said to get through, in words or as JSON.
func TestSimulationNeverPromises(t *testing.T) {
	for name, tt := range map[string]struct {
		result   simulation.Result
		unknown  []string
		finishes bool
	}{
		"all is known": {simulation.Result{}, nil, true},
		"time was up":  {simulation.Result{Partial: true}, nil, false},
		"a node waits": {simulation.Result{Waiting: []string{"node a is not ready"}}, nil, false},
		"no budgets":   {simulation.Result{}, []string{"poddisruptionbudgets"}, false},
		"it may stall": {simulation.Result{Stalls: []simulation.Stall{{Node: "a", Pod: "shop/cart", Budgets: []string{"shop/cart"}, Why: "1 pod has to be ready"}}}, nil, false},
	} {
		r := Record{Forecast: &forecast.Forecast{Simulation: &tt.result, Unknown: tt.unknown}}
		if got := strings.Contains(told(r), "All nodes are updated."); got != tt.finishes {
			t.Errorf("%s: the text says %t, want %t:\n%s", name, got, tt.finishes, told(r))
		}
		if got := r.Document().Forecast.Simulation.Finishes; got != tt.finishes {
			t.Errorf("%s: the document says %t, want %t", name, got, tt.finishes)
		}
	}
}

// TestSimulationEnds: what keeps a rollout from its end is said, once, if nothing has stalled it.
func TestSimulationEnds(t *testing.T) {
	for want, f := range map[string]forecast.Forecast{
		"Step by step, at worst:\n  In the way: node a is not ready\n":                                                 {Simulation: &simulation.Result{Waiting: []string{"node a is not ready"}}, Unknown: []string{"pods"}},
		"Step by step, at worst:\n  Whether all nodes are updated is not known: pods, namespaces could not be read.\n": {Simulation: &simulation.Result{}, Unknown: []string{"pods", "namespaces"}},
	} {
		if got := told(Record{Forecast: &f}); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestSimulationDocument: what is found in a simulation is published by these names.
func TestSimulationDocument(t *testing.T) {
	result := simulation.Result{
		Steps: []simulation.Step{
			{Pool: "worker", Node: "w1", Drained: true, Updated: true, Moves: []simulation.Move{{Pod: "app/router-0", To: "w2", Later: true, Updated: true, Outcome: simulation.ImageFails, Image: "new"}}},
			{Pool: "worker", Node: "w2", Refused: []string{"app/router-1"}},
		},
		Stalls: []simulation.Stall{{
			Pool: "worker", Node: "w2", Pod: "app/router-1", Budgets: []string{"app/router"}, Image: "new", ByImage: true, Possible: true,
			Missing: []proof.Missing{{Pod: "app/router-0", Node: "w1", Updated: true, Moved: true, Image: "new", Why: "it is slow"}},
		}},
		Waiting:   []string{"node w3 is not ready"},
		Obstacles: []simulation.Obstacle{{Kind: simulation.CannotMove, Budgets: []string{"app/router"}, Pods: []string{"app/router-0"}, Nodes: []string{"w1"}, Why: "there is no other node", Help: "add one", Router: true}},
	}
	got, err := json.Marshal(forecastDocument(&forecast.Forecast{Simulation: &result}).Simulation)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"partial":false,"finishes":false,"waiting":["node w3 is not ready"],"steps":[{"pool":"worker","node":"w1","drained":true,"moves":[{"pod":"app/router-0","to":"w2","later":true,"updated":true,"outcome":"image fails","image":"new"}],"updated":true,"text":""},{"pool":"worker","node":"w2","refused":["app/router-1"],"updated":false,"text":""}],` +
		`"stalls":[{"pool":"worker","node":"w2","pod":"app/router-1","budgets":["app/router"],"image":"new","missing":[{"pod":"app/router-0","node":"w1","updated":true,"moved":true,"image":"new","why":"it is slow"}],"byImage":true,"possible":true,"text":""}],` +
		`"obstacles":[{"kind":"cannot move","budgets":["app/router"],"pods":["app/router-0"],"nodes":["w1"],"why":"there is no other node","help":"add one","router":true,"text":""}]}`
	// The texts are tested where they are made.
	if got := regexp.MustCompile(`"text":"[^"]+"`).ReplaceAllString(string(got), `"text":""`); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
