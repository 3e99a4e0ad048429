package policy

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
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
	nodes[2].Name, nodes[2].Spec.Taints = "win", []corev1.Taint{{Key: WindowsTaint, Value: "Windows", Effect: corev1.TaintEffectNoSchedule}}
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
		p     *Placement
		want  string // of the platforms of all
	}{
		{"nothing is known of its pods", nodes, nil, all},
		{"anywhere, but no pod of Linux runs on Windows", nodes, &Placement{}, "linux/amd64 linux/arm64 linux/arm64/v8"},
		{"by architecture", nodes, &Placement{NodeSelector: map[string]string{corev1.LabelArchStable: "amd64"}}, "linux/amd64"},
		{"by a label that nodes of two have", nodes, &Placement{NodeSelector: map[string]string{"disk": "ssd"}}, "linux/amd64 linux/arm64 linux/arm64/v8"},
		{"by a label that nodes of one have", nodes, &Placement{NodeSelector: map[string]string{"zone": "b"}}, "linux/arm64 linux/arm64/v8"},
		{"by a label that no node has yet", nodes, &Placement{NodeSelector: map[string]string{"zone": "c"}}, all},
		{"the same, for one architecture", nodes, &Placement{NodeSelector: map[string]string{"zone": "c", "beta.kubernetes.io/arch": "arm64"}}, "linux/arm64 linux/arm64/v8"},
		{"by what it requires", nodes, &Placement{NodeAffinity: affinity(term(corev1.LabelArchStable, corev1.NodeSelectorOpNotIn, "amd64"))}, "linux/arm64 linux/arm64/v8"},
		{"by one of two that it requires", nodes, &Placement{NodeAffinity: affinity(term(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "s390x"), term("zone", corev1.NodeSelectorOpExists))}, "linux/arm64 linux/arm64/v8"},
		{"by what nobody can parse", nodes, &Placement{NodeAffinity: affinity(term("zone", "Around", "b"))}, all},
		{"it stays", nodes, &Placement{Node: "amd64"}, "linux/amd64"},
		{"it stays on a node that is gone", nodes, &Placement{Node: "gone"}, all},
		{"for Windows", nodes, &Placement{OS: "windows", Tolerations: []corev1.Toleration{{Key: "os", Value: "windows"}}}, "windows/amd64"},
		{"it tolerates everything", nodes, &Placement{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, all},
		{"no node is known", nil, &Placement{NodeSelector: map[string]string{"zone": "b"}}, all},
		{"no node is known, and its architecture is", nil, &Placement{NodeSelector: map[string]string{corev1.LabelArchStable: "arm64"}}, "linux/arm64 linux/arm64/v8"},
		{"a node does not say", append([]*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "b"}}}}, nodes...), &Placement{NodeSelector: map[string]string{"zone": "b"}}, all},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, site := "", siteOf(tc.nodes, nil, nil)
			for _, p := range []string{"linux/amd64", "linux/arm64", "linux/arm64/v8", "windows/amd64"} {
				if site.mayRunOn([]Consumer{{Use: History}, {Placement: tc.p}}, p) {
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
	site := siteOf(nodesFor("linux/amd64", "linux/arm64"), nil, nil)
	pinned := []Consumer{{Placement: &Placement{NodeSelector: map[string]string{corev1.LabelArchStable: "amd64"}}}}
	for _, p := range []string{"an unnamed platform", "", "linux", "linux/", "/amd64", "unknown/unknown", "linux/unknown"} {
		if !site.mayRunOn(pinned, p) {
			t.Errorf("no pod may run on %q", p)
		}
	}
}

// TestManyPlacements: whoever makes pods with ever other selectors does not have the guard go through
// all nodes for each, and does not have fewer platforms count.
func TestManyPlacements(t *testing.T) {
	site := siteOf(nodesFor("linux/amd64", "linux/arm64"), nil, nil)
	for i := range 2 * maxPlacements {
		p := &Placement{NodeSelector: map[string]string{corev1.LabelArchStable: "amd64", "x": fmt.Sprint(i)}}
		if !site.fits(p, "linux/amd64") || site.fits(p, "linux/arm64") {
			t.Fatal("its architecture counts")
		}
	}
	if len(site.known) != maxPlacements {
		t.Errorf("%d were held against the nodes", len(site.known))
	}
	p := &Placement{NodeSelector: map[string]string{"kubernetes.io/hostname": "amd64"}}
	if !site.fits(p, "linux/arm64") {
		t.Error("one that was not held against them counts as one that cannot run there")
	}
}

// TestAsPulled: who has nodes pull nothing is history, and nobody else.
func TestAsPulled(t *testing.T) {
	neverPulls := func(c *Consumer) { c.NeverPulls = true }
	ending := func(c *Consumer) { c.Ending = true }
	for _, tc := range []struct {
		name     string
		consumer func(*Consumer)
		router   bool
		policy   bool
		known    Cluster
		want     string
	}{
		{"it pulls", func(*Consumer) {}, false, false, Cluster{}, "deny NotFullySynced"},
		{"it never pulls", neverPulls, false, false, Cluster{}, "warn NotFullySynced"},
		{"it never pulls, and its signature is asked for", neverPulls, false, true, Cluster{}, "deny NotFullySynced"},
		{"it is being deleted", ending, false, false, Cluster{}, "warn NotFullySynced"},
		{"a router is being deleted", ending, true, false, Cluster{}, "deny NotFullySynced"},
		{"its namespace is being deleted", func(*Consumer) {}, false, false, Cluster{EndingNamespaces: map[string]bool{"shop": true}}, "warn NotFullySynced"},
		{"another namespace is", func(*Consumer) {}, false, false, Cluster{EndingNamespaces: map[string]bool{"shop2": true}}, "deny NotFullySynced"},
		{"that of the routers is", func(*Consumer) {}, true, false, Cluster{EndingNamespaces: map[string]bool{"openshift-ingress": true}}, "deny NotFullySynced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := consumers(tc.consumer)
			if tc.router {
				c = consumers(isRouter, tc.consumer)
			}
			before := set()
			if tc.policy {
				before = mirrors.Put(signedBy(release, "quay.io/x")).Apply(before)
			}
			tc.known.Images = NewImages(Image{tag, c})
			plan := newPlan(Change{before, mirrors.Put(itms("a", "quay.io", never, "m.local")).Apply(before)}, tc.known, Settings{})
			facts := Facts{}
			for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
				for _, l := range lookups {
					facts[l] = &Fact{Presence: Absent, AsNodes: true}
					if l.Host() == "quay.io" {
						facts[l] = &Fact{Presence: Present, AsNodes: true, Digest: sumA, MediaType: "application/vnd.oci.image.manifest.v1+json", Signatures: &signing.Signatures{All: []signing.Signature{release.Sign("quay.io/x:1", sumA)}}}
					}
				}
			}
			if got := summary(plan.Decide(facts)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if c[0].Use == History {
				t.Error("the inventory's own consumer was changed")
			}
		})
	}
}

// TestNeverRan: a miss at the source counts for pull secrets of a namespace none of whose pods has had the image,
// if that is known.
func TestNeverRan(t *testing.T) {
	pod := func(c *Consumer) { c.Kind, c.Use, c.OwnPullSecret = "Pod", Running, true }
	dead := func(c *Consumer) { pod(c); c.NeverRan = true }
	ended := func(c *Consumer) { pod(c); c.Use = History }
	elsewhere := func(c *Consumer) { c.Namespace = "other" }
	unknown := func(c *Consumer) { c.PullSecretUnknown = true }
	for _, tc := range []struct {
		name      string
		consumers []Consumer
		want      string
	}{
		{"a pod waits for it", consumers(dead), "warn NotFullySynced"},
		{"a Deployment names it", consumers(withSecret), "warn NotFullySynced"},
		{"with a service account that is not known", consumers(withSecret, unknown), "warn NotFullySynced"},
		{"a pod runs it", append(consumers(withSecret), consumers(pod)...), "deny NotFullySynced"},
		{"a pod has run it", append(consumers(withSecret), consumers(ended)...), "deny NotFullySynced"},
		{"a pod runs it without a secret, elsewhere", append(consumers(withSecret), Consumer{Kind: "Pod", Namespace: "other", Use: Running}), "warn NotFullySynced"},
		{"a pod runs it with a secret, elsewhere", append(consumers(dead), consumers(pod, elsewhere)...), "deny NotFullySynced"},
		{"a router waits for it", consumers(dead, isRouter), "deny NotFullySynced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			verdict := func(known Cluster) string {
				known.Images = NewImages(Image{tag, tc.consumers})
				plan := newPlan(Change{set(), set(itms("a", "quay.io", never, "m.local"))}, known, Settings{})
				facts := Facts{}
				for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
					for _, l := range lookups {
						facts[l] = &Fact{Presence: Absent, AsNodes: true}
					}
				}
				return summary(plan.Decide(facts))
			}
			if got := verdict(Cluster{PodsListed: InEveryNamespace}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			for what, known := range map[string]Cluster{"not listed": {}, "of another namespace": {PodsListed: func(namespace string) bool { return namespace == "elsewhere" }}, "out of date": {PodsListed: InEveryNamespace, Gaps: []Gap{{Kind: "Pod"}}}} {
				if got := verdict(known); !strings.Contains(got, "deny NotFullySynced") {
					t.Errorf("pods are %s: %q", what, got)
				}
			}
		})
	}
}
