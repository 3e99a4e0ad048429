package simulation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation/scheduling"
)

// TestFilters is where a pod x can go that has no node yet.
func TestFilters(t *testing.T) {
	const nodes = "pool worker\nnode w1 worker zone=a\nnode w2 worker zone=b\nnode w3 worker zone=b taint=t\n"
	port := func(ip string, protocol corev1.Protocol) rollout.HostPort {
		return rollout.HostPort{IP: ip, Protocol: protocol, Port: 80}
	}
	// x edits the spec of x, other that of the first pod.
	x := func(edit func(s *rollout.PodSpec)) func(*rollout.Cluster) {
		return func(c *rollout.Cluster) { edit(c.Pods[len(c.Pods)-1].Spec) }
	}
	anti := func(edit func(term *corev1.PodAffinityTerm)) func(*rollout.Cluster) {
		return func(c *rollout.Cluster) {
			edit(&c.Pods[len(c.Pods)-1].Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0])
		}
	}
	red := func(namespaces map[string]labels.Set) func(*rollout.Cluster) {
		return func(c *rollout.Cluster) {
			anti(func(term *corev1.PodAffinityTerm) {
				term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
			})(c)
			c.Namespaces = namespaces
		}
	}
	for _, tt := range []struct {
		name  string
		lines string
		edit  func(c *rollout.Cluster)
		want  string
	}{
		{"a taint", "ReplicaSet  x", nil, "w1 w2"},
		{"a toleration for another value", "ReplicaSet  x", x(func(s *rollout.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "t", Value: "v"}} }), "w1 w2"},
		{"for its value", "ReplicaSet  x", x(func(s *rollout.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "t"}} }), "w1 w2 w3"},
		{"for another effect", "ReplicaSet  x", x(func(s *rollout.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "t", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		}), "w1 w2"},
		{"a preference is no constraint", "ReplicaSet  x", func(c *rollout.Cluster) {
			c.Nodes[0].Spec.Taints = []corev1.Taint{{Key: "UpdateInProgress", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, "w1 w2"},
		{"no execution", "ReplicaSet  x", func(c *rollout.Cluster) {
			c.Nodes[0].Spec.Taints = []corev1.Taint{{Key: "down", Effect: corev1.TaintEffectNoExecute}}
		}, "w2"},
		{"a node that is not ready, or cordoned", "node w4 worker notready\nnode w5 worker cordoned\nReplicaSet  x", nil, "w1 w2"},
		{"a toleration for cordons", "node w5 worker cordoned\nReplicaSet  x tolerates=node.kubernetes.io/unschedulable", nil, "w1 w2 w5"},
		{"a claim that is tied to no node", "ReplicaSet  x claim=data", nil, "w1 w2"},
		{"it requests nothing, and the node is full", "ReplicaSet w1 other cpu=8\nReplicaSet  x", nil, "w1 w2"},
		{"as many pods as a node takes", "node w4 worker pods=1\nReplicaSet w4 other\nReplicaSet  x", nil, "w1 w2"},
		{"one less than a node takes", "node w4 worker pods=2\nReplicaSet w4 other\nReplicaSet  x", nil, "w1 w2 w4"},
		{"a device that one node has", "ReplicaSet  x", func(c *rollout.Cluster) {
			c.Nodes[1].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
			c.Pods[0].Spec.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}, "w2"},

		{"another port", "ReplicaSet w1 other port=81\nReplicaSet  x port=80", nil, "w1 w2"},
		{"another protocol", "ReplicaSet w1 other port=80\nReplicaSet  x", x(func(s *rollout.PodSpec) { s.HostPorts = []rollout.HostPort{port("", "UDP")} }), "w1 w2"},
		{"one address of a port that is taken on all", "ReplicaSet w1 other port=80\nReplicaSet  x", x(func(s *rollout.PodSpec) { s.HostPorts = []rollout.HostPort{port("10.0.0.1", "")} }), "w2"},
		{"all addresses", "ReplicaSet w1 other\nReplicaSet  x", func(c *rollout.Cluster) {
			c.Pods[0].Spec.HostPorts = []rollout.HostPort{port("10.0.0.1", "TCP")}
			c.Pods[1].Spec.HostPorts = []rollout.HostPort{port("0.0.0.0", "TCP")}
		}, "w2"},
		{"another address", "ReplicaSet w1 other\nReplicaSet  x", func(c *rollout.Cluster) {
			c.Pods[0].Spec.HostPorts = []rollout.HostPort{port("10.0.0.1", "TCP")}
			c.Pods[1].Spec.HostPorts = []rollout.HostPort{port("10.0.0.2", "TCP")}
		}, "w1 w2"},

		{"of the other pod", "ReplicaSet w1 other apart\nReplicaSet  x", func(c *rollout.Cluster) {
			c.Pods[0].Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = &metav1.LabelSelector{}
		}, "w2"},
		{"from pods of another namespace, which it does not name", "in other\nReplicaSet w1 x\nin app\nReplicaSet  x apart", nil, "w1 w2"},
		{"which it names", "in other\nReplicaSet w1 x\nin app\nReplicaSet  x apart", anti(func(term *corev1.PodAffinityTerm) { term.Namespaces = []string{"other"} }), "w2"},
		{"which it selects", "in other\nReplicaSet w1 x\nin app\nReplicaSet  x apart", red(map[string]labels.Set{"other": {"team": "red"}, "app": {}}), "w2"},
		{"which it does not select", "in other\nReplicaSet w1 x\nin app\nReplicaSet  x apart", red(map[string]labels.Set{"other": {}, "app": {"team": "red"}}), "w1 w2"},
		{"which it may select: nobody knows the labels", "in other\nReplicaSet w1 x\nin app\nReplicaSet  x apart", red(nil), "w2"},
		{"of any namespace", "in other\nReplicaSet w1 x\nin app\nReplicaSet  x apart", anti(func(term *corev1.PodAffinityTerm) { term.NamespaceSelector = &metav1.LabelSelector{} }), "w2"},
		{"a selector that is invalid selects nothing", "ReplicaSet w1, x apart", anti(func(term *corev1.PodAffinityTerm) {
			term.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
		}), "w1 w2"},

		{"affinity to nobody", "ReplicaSet  x with=other", nil, ""},
		{"affinity to itself, the first", "ReplicaSet  x with=x", nil, "w1 w2"},
		{"affinity in a topology that a node has not", "node w4 worker\nReplicaSet w2 other\nReplicaSet  x with=other", x(func(s *rollout.PodSpec) {
			s.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = corev1.LabelTopologyZone
			s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}), "w2 w3"},
		{"affinity to pods that match all of its terms", "ReplicaSet w1 other\nReplicaSet w2 more\nReplicaSet  x with=other", x(func(s *rollout.PodSpec) {
			s.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(s.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "more"}},
			})
		}), ""},

		{"over those that it tolerates alone", "ReplicaSet w1,w2, x spread", x(func(s *rollout.PodSpec) {
			honor := corev1.NodeInclusionPolicyHonor
			s.Spread[0].NodeTaintsPolicy = &honor
		}), "w1 w2"},
		{"over all hosts, though it can go to a zone only", "ReplicaSet w2, x spread on=topology.kubernetes.io/zone:b", x(func(s *rollout.PodSpec) {
			ignore := corev1.NodeInclusionPolicyIgnore
			s.Spread[0].NodeAffinityPolicy = &ignore
		}), ""},
		{"over more domains than there are", "ReplicaSet w1,w2,w3, x spread", x(func(s *rollout.PodSpec) {
			least := int32(9)
			s.Spread[0].MinDomains = &least
		}), ""},
		{"of pods with the same value of another label", "ReplicaSet w1,w2 x\nReplicaSet  x spread", x(func(s *rollout.PodSpec) {
			s.Labels["hash"] = "2"
			s.Spread[0].MatchLabelKeys = []string{"hash", "none"}
		}), "w1 w2"},
		{"that is only asked for", "ReplicaSet w1, x spread", x(func(s *rollout.PodSpec) { s.Spread[0].WhenUnsatisfiable = corev1.ScheduleAnyway }), "w1 w2"},
		{"in a topology that a node has not", "node w4 worker\nReplicaSet  x spread=topology.kubernetes.io/zone", nil, "w1 w2"},
		{"of a selector that is invalid", "ReplicaSet w1, x spread", x(func(s *rollout.PodSpec) {
			s.Spread[0].LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
		}), "w1 w2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := scene(nodes + tt.lines).cluster(t)
			if tt.edit != nil {
				tt.edit(&c)
			}
			// Terms that read nearly as those of others, and select none of their pods.
			alike := makePods("ReplicaSet", "x apart", "w3")[0]
			alike.Namespace = "all"
			terms := &alike.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			*terms = append(*terms, corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, Namespaces: []string{"app"}})
			c.Pods = append(c.Pods, alike)
			w := scheduling.NewCluster(inputFor(c))
			at := w.NewPlacement(scheduling.Assumption{Images: w.Images})
			var can []string
			for i := range w.Pods {
				p := &w.Pods[i]
				if p.At != scheduling.NoNode {
					continue
				}
				for n := range w.Nodes {
					if at.Obstructed(p.PodClass, int32(n)) == "" {
						can = append(can, w.Nodes[n].Name)
					}
				}
			}
			if got := strings.Join(can, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
