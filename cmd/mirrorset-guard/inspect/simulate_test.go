package inspect

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestSimulate: no registry answers here, and so the worst course is that of images which
// cannot be pulled, and the best that of images which can.
func TestSimulate(t *testing.T) {
	objects, change := clitest.Story(t, "183_the_deadlock")
	_, digests := clitest.Story(t, "182_a_digest_mirror_reloads")
	elsewhere := strings.ReplaceAll(objects, "quay.io/shop/cart", "registry.example.org/cart")
	without := func(kind string) string {
		return strings.Join(slices.DeleteFunc(strings.Split(objects, "---\n"), func(o string) bool { return strings.Contains(o, "kind: "+kind+"\n") }), "---\n")
	}
	deployment := "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: shop, name: cart}\nspec: {template: {spec: {containers: [{name: app, image: registry.example.org/cart}]}}}\n"
	const drains = "Forecast: it drains and reloads CRI-O on 3 nodes, one at a time, 15 to 45 minutes"
	for _, tt := range []struct {
		name, dump, change string
		args               []string
		want               []string // parts of the report, in this order
	}{
		{"at worst", objects, change, []string{"--simulate"}, []string{
			drains + ".\n", "Step by step, at worst:", "  1. node-a (pool worker) is drained and updated; ", "Stalled: node-",
		}},
		{"only if asked for", objects, change, nil, []string{drains + ".\n", "Registries were asked"}},
		{"what is not rerouted has to be pulled as well", elsewhere, change, []string{"--simulate"}, []string{drains + "; the other image that drains move could not be verified.\n", "Step by step, at worst:", "Stalled: node-"}},
		{"there is no budget", strings.ReplaceAll(without("PodDisruptionBudget"), "quay.io/shop/cart", "registry.example.org/cart"), change, []string{"--simulate"}, []string{drains, "Step by step, at worst:", "Whether all nodes are updated is not known: clusteroperators, infrastructures,\n"}},
		{"a paused pool", strings.ReplaceAll(objects, "paused: false", "paused: true"), change, []string{"--simulate"}, []string{"reaches no node; pool worker is paused", "Pool worker as well: not yet: pool worker is paused.", "Step by step, at worst:", "Stalled: node-"}},
		{"no drain", objects + "---\n{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}}\n", digests, []string{"--simulate"}, []string{"reloads CRI-O without a drain on 3 nodes", "Nothing was simulated: the change drains no node."}},
		{"no nodes", without("Node"), change, []string{"--simulate"}, []string{"Nothing was simulated: the nodes are not known."}},
		{"no pods", without("Pod") + deployment, change, []string{"--simulate"}, []string{drains + "; the drains were not simulated: ", "Nothing was simulated: pods could not be read."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"dump.yaml": tt.dump, "change.yaml": tt.change}
			_, stdout, stderr := check(t, files, append([]string{"--from", "{dir}/dump.yaml", "-f", "{dir}/change.yaml", "--timeout", "1m"}, tt.args...)...)
			rest := stdout
			for _, part := range tt.want {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Fatalf("%q is not there, or not in its place:\n%s%s", part, stdout, stderr)
				}
				rest = after
			}
			if simulated := strings.Contains(stdout, "Step by step"); simulated && !slices.Contains(tt.args, "--simulate") {
				t.Error("the steps are there although nobody asked")
			}
		})
	}
}

// TestForecastDocument: the document has what the report says.
func TestForecastDocument(t *testing.T) {
	objects, change := clitest.Story(t, "183_the_deadlock")
	files := map[string]string{"dump.yaml": objects, "change.yaml": change}
	_, stdout, _ := check(t, files, "--from", "{dir}/dump.yaml", "-f", "{dir}/change.yaml", "--timeout", "1m", "-o", "json")
	var doc v1alpha1.Review
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
		t.Fatal(err)
	}
	f := doc.Forecast
	if f == nil || len(f.Pools) != 1 || f.Simulation == nil || f.Simulation.Finishes || len(f.Simulation.Stalls) == 0 || f.Time != (v1alpha1.Span{MinSeconds: 900, MaxSeconds: 2700}) {
		t.Fatalf("got %+v: %s", f, stdout)
	}
	_, junit, _ := check(t, files, "--from", "{dir}/dump.yaml", "-f", "{dir}/change.yaml", "--timeout", "1m", "-o", "junit")
	if want := `<testcase classname="rollout" name="the rollout">`; !strings.Contains(junit, want) || !strings.Contains(junit, f.Summary) {
		t.Errorf("%s or the forecast is not in\n%s", want, junit)
	}
}
