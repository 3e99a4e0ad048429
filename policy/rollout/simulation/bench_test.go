package simulation

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// largeCluster makes workers with as many pods each, in deployments of five in a thousand
// namespaces. Every other deployment has a budget, and every tenth wants its pods on different
// nodes. Requests take 60 % of the nodes.
func largeCluster(nodes, perNode int) rollout.Cluster {
	c := rollout.Cluster{}
	c.Pools = append(c.Pools, makePool("master"), makePool("worker max=10%"))
	for i := range 3 {
		c.Nodes = append(c.Nodes, makeNode(i, fmt.Sprintf("master-%d master taint=node-role.kubernetes.io/master", i)))
	}
	for i := range nodes {
		n := makeNode(3+i, fmt.Sprintf("worker-%04d worker zone=%c cpu=32 memory=128", i, 'a'+i%3))
		for j := range 40 {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{
				fmt.Sprintf("quay.io/team/image-%d@sha256:%064d", (i+j*7)%2000, j), fmt.Sprintf("quay.io/team/image-%d:1", (i+j*7)%2000),
			}})
		}
		c.Nodes = append(c.Nodes, n)
	}
	const replicas = 5
	for d := range nodes * perNode / replicas {
		app := fmt.Sprintf("app-%d", d)
		namespace := fmt.Sprintf("team-%d", d%1000)
		words := fmt.Sprintf("%s image=quay.io/team/image-%d:1 cpu=%dm memory=%d", app, d%2000, 32000*6/10/perNode/2*(1+d%3), 128*6/10/perNode)
		if d%10 == 0 {
			words += " apart"
		}
		spec := makeSpec(words)
		for r := range replicas {
			c.Pods = append(c.Pods, rollout.Pod{
				Namespace: namespace, Name: fmt.Sprintf("%s-%d", app, r), Node: c.Nodes[3+(d*replicas+r*nodes/replicas+d/perNode)%nodes].Name,
				Owner: rollout.Owner{Kind: "ReplicaSet", Name: app}, Spec: spec, Started: true, Ready: true,
			})
		}
		if d%2 == 0 {
			most := intstr.FromInt32(1)
			c.Budgets = append(c.Budgets, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
				Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			})
		}
	}
	return c
}

// TestThousands: what a run allocates stays in proportion to what tenants name in their pods, which can be thousands of anything.
func TestThousands(t *testing.T) {
	apart := func(s *rollout.PodSpec, i int, key string) {
		others := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint(i)}}}}
		terms := &s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*terms = append(*terms, corev1.PodAffinityTerm{TopologyKey: key, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: others})
	}
	for name, add := range map[string]func(c *rollout.Cluster, s *rollout.PodSpec, i int){
		"resources": func(_ *rollout.Cluster, s *rollout.PodSpec, i int) {
			s.Requests[corev1.ResourceName(fmt.Sprint("example.com/", i))] = resource.MustParse("1")
		},
		"terms":      func(_ *rollout.Cluster, s *rollout.PodSpec, i int) { apart(s, i, corev1.LabelHostname) },
		"topologies": func(_ *rollout.Cluster, s *rollout.PodSpec, i int) { apart(s, i, fmt.Sprint("example.com/", i)) },
		"classes": func(c *rollout.Cluster, _ *rollout.PodSpec, _ int) {
			c.Pods = append(c.Pods, makePods("StatefulSet", "data apart", "")...)
		},
	} {
		allocated := func(n int) uint64 {
			c := largeCluster(n/10, 10)
			for i := range n {
				add(&c, c.Pods[0].Spec, i)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Run(inputFor(c))
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		if few, many := allocated(250), allocated(1000); many > 8*few { // it is 4 times as many
			t.Errorf("%s: %d KB, and then %d KB", name, few>>10, many>>10)
		}
	}
}

// BenchmarkRun reports the time for each pod beside that for all, which has to stay the same.
func BenchmarkRun(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{500, 10_000}, {5_000, 100_000}} {
		b.Run(fmt.Sprintf("%d/%d", size.nodes, size.pods), func(b *testing.B) {
			in := inputFor(largeCluster(size.nodes, size.pods/size.nodes))
			b.ReportAllocs()
			for b.Loop() {
				if got := Run(in); len(got.Stalls) > 0 {
					b.Fatalf("%d stalls: %s", len(got.Stalls), said(got))
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(time.Microsecond)/float64(b.N*size.pods), "µs/pod")
		})
	}
}

// BenchmarkHard is about clusters as large where little is as it should be: nodes that are nearly full,
// so that few places are left for pods, and images of which it is not known that a node can pull them.
func BenchmarkHard(b *testing.B) {
	const nodes, perNode = 5_000, 20
	for _, kind := range []struct {
		name string
		make func() Input
	}{
		{"overfull", func() Input {
			c := largeCluster(nodes, perNode)
			for _, n := range c.Nodes { // 19.2 of these CPUs are requested
				n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("19200m")
			}
			return inputFor(c)
		}},
		{"unknown", func() Input {
			in := inputFor(largeCluster(nodes, perNode))
			in.Pull = nil
			return in
		}},
		{"spread", func() Input {
			in := inputFor(largeCluster(nodes, perNode))
			for i := range in.Cluster.Pods {
				spec := in.Cluster.Pods[i].Spec
				if spec.Spread == nil {
					spec.Spread = makeSpec(spec.Labels["app"] + " spread=" + corev1.LabelTopologyZone + " honor").Spread
				}
			}
			return in
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			in := kind.make()
			for b.Loop() {
				Run(in)
			}
		})
	}
}
