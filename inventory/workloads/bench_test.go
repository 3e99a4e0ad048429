package workloads

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

const (
	benchPods      = 100_000
	benchPerOwner  = 20
	benchNodes     = 5_000
	benchPerSpaces = 200 // pods in a namespace
)

// benchPod returns pod number i as the API server sends it. One of a StatefulSet has a label
// of its own.
func benchPod(tb testing.TB, i int, isStateful bool) []byte {
	owner := i / benchPerOwner
	pod := podFrom(tb, router)
	pod.Namespace, pod.Name = fmt.Sprint("team-", i/benchPerSpaces), fmt.Sprintf("application-%d-6d8f7c9b5d-x%04d", owner, i%benchPerOwner)
	pod.Labels = map[string]string{"app": fmt.Sprint("application-", owner), "pod-template-hash": "6d8f7c9b5d", "team": "a-team", "version": "v1"}
	if isStateful {
		pod.Labels["statefulset.kubernetes.io/pod-name"] = pod.Name
	}
	pod.OwnerReferences[0].Name = fmt.Sprintf("application-%d-6d8f7c9b5d", owner)
	pod.Spec.NodeName = fmt.Sprintf("worker-%d.cluster.example.com", i%benchNodes)
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:status":{}}`, 100))}}
	data, err := pod.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func decoded(tb testing.TB, data []byte) *corev1.Pod {
	pod := new(corev1.Pod)
	if err := pod.Unmarshal(data); err != nil {
		tb.Fatal(err)
	}
	return pod
}

// heapOf returns the bytes that what build makes keeps alive.
func heapOf(build func() any) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := build()
	runtime.GC()
	runtime.GC() // the first one clears weak pointers, and what their cleanups hold
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// BenchmarkMemory reports the heap of a Table of 100,000 pods, each put three times as pods
// that start are, beside the floor: a slice of bare rollout.Pods and their names. Of
// Deployments, 20 pods each share a spec; of StatefulSets, they differ in a label.
func BenchmarkMemory(b *testing.B) {
	for _, of := range []string{"Deployments", "StatefulSets"} {
		b.Run(of, func(b *testing.B) {
			encoded := make([][]byte, benchPods)
			names := 0.0
			for i := range encoded {
				encoded[i] = benchPod(b, i, of == "StatefulSets")
				names += float64(len(decoded(b, encoded[i]).Name))
			}
			for b.Loop() {
				table := heapOf(func() any {
					t := new(Table)
					for range 3 {
						for _, data := range encoded {
							t.Put(t.Trim(decoded(b, data)))
						}
					}
					t.Pods()
					return t
				})
				b.ReportMetric(table/benchPods, "B/pod")
			}
			b.ReportMetric(float64(unsafe.Sizeof(rollout.Pod{}))+names/benchPods, "floor-B/pod")
		})
	}
}

// BenchmarkTrim is what an event of a pod costs besides decoding it, and what decoding it
// does.
func BenchmarkTrim(b *testing.B) {
	data := benchPod(b, 0, false)
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decoded(b, data)
		}
	})
	b.Run("Trim", func(b *testing.B) {
		table, pod := new(Table), decoded(b, data)
		kept := table.Trim(pod)
		b.ReportAllocs()
		for b.Loop() {
			table.Trim(pod)
		}
		runtime.KeepAlive(kept)
	})
}

// BenchmarkPods is what it costs to ask for 100,000 pods where nothing has changed, and
// where one pod has.
func BenchmarkPods(b *testing.B) {
	table := new(Table)
	spec := new(rollout.PodSpec)
	pod := func(i, generation int) *rollout.Pod {
		return &rollout.Pod{Namespace: fmt.Sprint("team-", i/benchPerSpaces), Name: fmt.Sprint("pod-", i), Node: fmt.Sprint("node-", generation), Spec: spec}
	}
	for i := range benchPods {
		table.Put(pod(i, 0))
	}
	b.Run("Unchanged", func(b *testing.B) {
		for b.Loop() {
			table.Pods()
		}
	})
	b.Run("Changed", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			table.Put(pod(i%benchPods, i+1))
			table.Pods()
		}
	})
}
