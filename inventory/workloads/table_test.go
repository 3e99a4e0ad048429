package workloads

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Equal pods share their spec, however they were encoded; others do not.
func TestSpecsAreShared(t *testing.T) {
	var table Table
	pod := podFrom(t, router)
	first, second := table.Trim(pod), table.Trim(again(t, pod))
	if first.Spec != second.Spec {
		t.Error("pods of equal spec do not share it")
	}
	sibling := again(t, pod)
	sibling.Labels["statefulset.kubernetes.io/pod-name"] = "web-1"
	third := table.Trim(sibling)
	if third.Spec == first.Spec || third.Spec.Labels["statefulset.kubernetes.io/pod-name"] != "web-1" || &third.Spec.Containers[0] != &first.Spec.Containers[0] || third.Spec.Affinity != first.Spec.Affinity {
		t.Error("pods that differ in labels do not share the rest")
	}
	if diff := cmp.Diff(first.Spec, third.Spec, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Labels" }, cmp.Ignore())); diff != "" {
		t.Errorf("it differs in more: %s", diff)
	}
	other := again(t, pod)
	other.Spec.Containers[0].Image = "quay.io/other:1"
	if table.Trim(other).Spec == first.Spec {
		t.Error("pods of other specs share it")
	}
}

// TestEveryFieldCounts: no field of a spec is missing from what tells specs apart, and
// from what is written to dumps.
func TestEveryFieldCounts(t *testing.T) {
	full := rollout.PodSpec{
		Labels:       map[string]string{"a": "b"},
		Containers:   []rollout.Container{{Name: "a", Image: "x", Pull: corev1.PullAlways}},
		NodeSelector: map[string]string{"a": "b"},
		Affinity:     &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}}}},
		Tolerations:  []corev1.Toleration{{Key: "a", TolerationSeconds: new(int64(5))}},
		Spread:       []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone"}},
		HostPorts:    []rollout.HostPort{{IP: "10.0.0.1", Protocol: corev1.ProtocolUDP, Port: 53}},
		Requests:     corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		Claims:       []string{"data"}, Priority: 1, Preempts: true, GracePeriod: time.Minute, Gated: true, Once: true,
		Scheduler: "volcano", PullSecrets: []string{"vendor"}, Security: rollout.Baseline, Unset: []corev1.ResourceName{"limits.cpu"},
	}
	value := reflect.ValueOf(full)
	encoded := encodeSpec(&full)
	if got := decodeSpec(&encoded); !cmp.Equal(got, full) {
		t.Errorf("-want +got:\n%s", cmp.Diff(full, got))
	}
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		if value.Field(i).IsZero() {
			t.Errorf("%s is not tested", name)
		}
		without := full
		reflect.ValueOf(&without).Elem().Field(i).SetZero()
		if asJSON(t, encodeSpec(&without)) == asJSON(t, encodeSpec(&full)) {
			t.Errorf("%s does not count", name)
		}
	}
}

func sorted(pods []rollout.Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Namespace+"/"+p.Name+" on "+p.Node)
	}
	slices.Sort(names)
	return names
}

func simple(table *Table, namespace, name, node string) *rollout.Pod {
	return table.Trim(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "a", Image: "x:1"}}},
	})
}

// TestTable compares a Table with a map, over random changes. What was handed out before a
// change stays as it was.
func TestTable(t *testing.T) {
	var table Table
	random := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{} // nodes by namespace and name
	type handed struct{ pods, copied []rollout.Pod }
	var out []handed
	list := func() []string {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(want)) {
			names = append(names, name+" on "+want[name])
		}
		slices.Sort(names)
		return names
	}
	for i := range 5000 {
		namespace, name, node := fmt.Sprint("ns-", random.IntN(3)), fmt.Sprint("pod-", random.IntN(20)), fmt.Sprint("node-", random.IntN(3))
		switch random.IntN(40) {
		default:
			table.Put(simple(&table, namespace, name, node))
			want[namespace+"/"+name] = node
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16:
			table.Remove(namespace, name)
			delete(want, namespace+"/"+name)
		case 17:
			pods := []*rollout.Pod{simple(&table, namespace, name, "x"), nil, simple(&table, namespace, name, node), simple(&table, "other", name, node)}
			table.Replace(slices.Values(pods))
			want = map[string]string{namespace + "/" + name: node, "other/" + name: node}
		case 18, 19, 20:
			pods := table.Pods()
			out = append(out, handed{pods, slices.Clone(pods)})
		}
		if i%100 == 0 {
			if diff := cmp.Diff(list(), sorted(table.Pods())); diff != "" {
				t.Fatalf("after %d changes: -want +got:\n%s", i, diff)
			}
		}
	}
	for _, h := range out {
		if !slices.Equal(h.pods, h.copied) {
			t.Fatal("a list that was handed out has changed")
		}
	}
}

// Nothing changes where a pod is put again as it was, which is what most events are.
func TestPutAgain(t *testing.T) {
	var table Table
	table.Put(simple(&table, "shop", "a", "n1"))
	before := table.Pods()
	table.Put(simple(&table, "shop", "a", "n1"))
	table.Remove("shop", "b")
	if after := table.Pods(); &before[0] != &after[0] {
		t.Error("the list was copied for nothing")
	}
	if pods := append(before, rollout.Pod{}); len(table.Pods()) != 1 || len(pods) != 2 {
		t.Error("a caller reaches beyond the list")
	}
}

// TestNothingIsLeft: names and specs of pods that are gone are gone as well.
func TestNothingIsLeft(t *testing.T) {
	var table Table
	var specs []weak.Pointer[rollout.PodSpec]
	for i := range 1000 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i), Name: "a"},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprint("node-", i), Containers: []corev1.Container{{Name: "a", Image: fmt.Sprint("gone:", i)}}},
		}
		p := table.Trim(pod)
		specs = append(specs, weak.Make(p.Spec))
		table.Put(p)
		table.Remove(pod.Namespace, "a")
	}
	table.Put(simple(&table, "shop", "a", "n1"))
	if n := len(table.names); n > 10 {
		t.Errorf("%d names are held for one pod", n)
	}
	held := func(w weak.Pointer[rollout.PodSpec]) bool { return w.Value() != nil }
	for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(specs, held); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("specs of pods that are gone are held")
		}
	}
	if table.Pods()[0].Spec == nil {
		t.Error("the pod that is there has lost its spec")
	}
}

func TestTableAtOnce(t *testing.T) {
	var table Table
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 200 {
				name := fmt.Sprint("pod-", g, "-", i%10)
				table.Put(simple(&table, "shop", name, fmt.Sprint("node-", i)))
				for _, p := range table.Pods() {
					if p.Spec == nil || p.Name == "" {
						t.Error("half a pod")
					}
				}
				if i%3 == 0 {
					table.Remove("shop", name)
				}
			}
		})
	}
	all.Wait()
}
