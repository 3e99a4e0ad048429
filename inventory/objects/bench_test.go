package objects

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkNodeMemory reports the heap of 5,000 trimmed nodes with 50 images of two names
// each, out of 2,000 in the cluster, beside the names of one node as they come.
func BenchmarkNodeMemory(b *testing.B) {
	const nodes, images = 5_000, 2_000
	encoded := make([][]byte, nodes)
	names := 0
	for i := range encoded {
		n := &corev1.Node{Status: corev1.NodeStatus{}}
		n.Name = fmt.Sprint("worker-", i)
		for j := range maxImages {
			image := (i*7 + j*31) % images
			list := []string{fmt.Sprintf("registry.example.com/team/application-%d@sha256:%064d", image, image), fmt.Sprintf("registry.example.com/team/application-%d:1.2.3", image)}
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: list, SizeBytes: 1})
			if i == 0 {
				names += len(list[0]) + len(list[1])
			}
		}
		data, err := n.Marshal()
		if err != nil {
			b.Fatal(err)
		}
		encoded[i] = data
	}
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := make([]*corev1.Node, nodes)
		for i, data := range encoded {
			n := new(corev1.Node)
			if err := n.Unmarshal(data); err != nil {
				b.Fatal(err)
			}
			kept[i] = TrimNode(n)
		}
		runtime.GC()
		runtime.GC() // the first one clears weak pointers
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
		b.ReportMetric(float64(names*nodes)/1e6, "names-MB")
		runtime.KeepAlive(kept)
	}
}
