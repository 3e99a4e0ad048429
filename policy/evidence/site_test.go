package evidence

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func nodesFor(platforms ...string) []*corev1.Node {
	nodes := make([]*corev1.Node, len(platforms))
	for i, p := range platforms {
		os, arch, _ := strings.Cut(p, "/")
		nodes[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: arch, Labels: map[string]string{corev1.LabelOSStable: os, corev1.LabelArchStable: arch}}}
		nodes[i].Status.NodeInfo.OperatingSystem, nodes[i].Status.NodeInfo.Architecture = os, arch
	}
	return nodes
}

func TestPlacement(t *testing.T) {
	nodes := nodesFor("linux/amd64", "linux/arm64", "windows/amd64")
	nodes[0].Labels["disk"], nodes[1].Labels["disk"], nodes[1].Labels["zone"] = "ssd", "ssd", "b"
	nodes[2].Name, nodes[2].Spec.Taints = "win", []corev1.Taint{{Key: policy.WindowsTaint, Value: "Windows", Effect: corev1.TaintEffectNoSchedule}}
	affinity := func(terms ...corev1.NodeSelectorTerm) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	term := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	const all = "linux/amd64 linux/arm64 linux/arm64/v8 windows/amd64"
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		p     *policy.Placement
		want  string // of the platforms of all
	}{
		{"nothing is known of its pods", nodes, nil, all},
		{"anywhere, but no pod of Linux runs on Windows", nodes, &policy.Placement{}, "linux/amd64 linux/arm64 linux/arm64/v8"},
		{"by architecture", nodes, &policy.Placement{NodeSelector: map[string]string{corev1.LabelArchStable: "amd64"}}, "linux/amd64"},
		{"by a label that nodes of two have", nodes, &policy.Placement{NodeSelector: map[string]string{"disk": "ssd"}}, "linux/amd64 linux/arm64 linux/arm64/v8"},
		{"by a label that nodes of one have", nodes, &policy.Placement{NodeSelector: map[string]string{"zone": "b"}}, "linux/arm64 linux/arm64/v8"},
		{"by a label that no node has yet", nodes, &policy.Placement{NodeSelector: map[string]string{"zone": "c"}}, all},
		{"the same, for one architecture", nodes, &policy.Placement{NodeSelector: map[string]string{"zone": "c", "beta.kubernetes.io/arch": "arm64"}}, "linux/arm64 linux/arm64/v8"},
		{"by what it requires", nodes, &policy.Placement{NodeAffinity: affinity(term(corev1.LabelArchStable, corev1.NodeSelectorOpNotIn, "amd64"))}, "linux/arm64 linux/arm64/v8"},
		{"by one of two that it requires", nodes, &policy.Placement{NodeAffinity: affinity(term(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "s390x"), term("zone", corev1.NodeSelectorOpExists))}, "linux/arm64 linux/arm64/v8"},
		{"by what nobody can parse", nodes, &policy.Placement{NodeAffinity: affinity(term("zone", "Around", "b"))}, all},
		{"it stays", nodes, &policy.Placement{Node: "amd64"}, "linux/amd64"},
		{"it stays on a node that is gone", nodes, &policy.Placement{Node: "gone"}, all},
		{"for Windows", nodes, &policy.Placement{OS: "windows", Tolerations: []corev1.Toleration{{Key: "os", Value: "windows"}}}, "windows/amd64"},
		{"it tolerates everything", nodes, &policy.Placement{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, all},
		{"no node is known", nil, &policy.Placement{NodeSelector: map[string]string{"zone": "b"}}, all},
		{"no node is known, and its architecture is", nil, &policy.Placement{NodeSelector: map[string]string{corev1.LabelArchStable: "arm64"}}, "linux/arm64 linux/arm64/v8"},
		{"a node does not say", append([]*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "b"}}}}, nodes...), &policy.Placement{NodeSelector: map[string]string{"zone": "b"}}, all},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, site := "", SiteOf(tc.nodes, nil, nil)
			for _, p := range []string{"linux/amd64", "linux/arm64", "linux/arm64/v8", "windows/amd64"} {
				if site.MayRunOn([]policy.Consumer{{Use: policy.History}, {Placement: tc.p}}, p) {
					got += " " + p
				}
			}
			if got != " "+tc.want {
				t.Errorf("got%s, want %s", got, tc.want)
			}
		})
	}
}

// TestUnnamedPlatforms: what a part of an index does not say keeps no pod from it.
func TestUnnamedPlatforms(t *testing.T) {
	site := SiteOf(nodesFor("linux/amd64", "linux/arm64"), nil, nil)
	pinned := []policy.Consumer{{Placement: &policy.Placement{NodeSelector: map[string]string{corev1.LabelArchStable: "amd64"}}}}
	for _, p := range []string{"an unnamed platform", "", "linux", "linux/", "/amd64", "unknown/unknown", "linux/unknown"} {
		if !site.MayRunOn(pinned, p) {
			t.Errorf("no pod may run on %q", p)
		}
	}
}

// TestManyPlacements: whoever makes pods with ever other selectors does not have the guard go through
// all nodes for each, and does not have fewer platforms count.
func TestManyPlacements(t *testing.T) {
	site := SiteOf(nodesFor("linux/amd64", "linux/arm64"), nil, nil)
	for i := range 2 * maxPlacements {
		p := &policy.Placement{NodeSelector: map[string]string{corev1.LabelArchStable: "amd64", "x": fmt.Sprint(i)}}
		if !site.fits(p, "linux/amd64") || site.fits(p, "linux/arm64") {
			t.Fatal("its architecture counts")
		}
	}
	if len(site.known) != maxPlacements {
		t.Errorf("%d were held against the nodes", len(site.known))
	}
	p := &policy.Placement{NodeSelector: map[string]string{"kubernetes.io/hostname": "amd64"}}
	if !site.fits(p, "linux/arm64") {
		t.Error("one that was not held against them counts as one that cannot run there")
	}
}
