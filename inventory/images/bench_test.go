package images

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The synthetic cluster for what an informer costs.
const (
	benchPods   = 100_000
	benchImages = 2_000
)

// encodedPod returns pod number i as the API server sends it, about 10.9 kB, most
// of it environment and managed fields.
func encodedPod(tb testing.TB, i int) []byte {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", i%500),
			Name:      fmt.Sprintf("application-%d-6d8f7c9b5d-x%04d", i/20, i%20),
			Labels:    map[string]string{"app": fmt.Sprint("application-", i/20), "pod-template-hash": "6d8f7c9b5d"},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:status":{"f:conditions":{}}}`, 110)),
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for c := range 3 {
		image := fmt.Sprintf("registry.example.com/team/application-%d:1.2.3", (i*3+c)%benchImages)
		container := corev1.Container{Name: fmt.Sprint("container-", c), Image: image}
		for e := range 35 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("SOME_VARIABLE_", e), Value: "with a value of some length"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: image, ImageID: fmt.Sprintf("registry.example.com/team/application@sha256:%064d", (i*3+c)%benchImages),
		})
	}
	data, err := pod.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func decodedPod(tb testing.TB, i int) *corev1.Pod {
	pod := new(corev1.Pod)
	if err := pod.Unmarshal(encodedPod(tb, i)); err != nil {
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
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// BenchmarkMemory reports the heap of an Index of 100,000 pods, with and without
// the list of images made from it, and that of the pods as they are. The latter
// is measured with a tenth of them.
func BenchmarkMemory(b *testing.B) {
	const MB = 1e6
	for b.Loop() {
		x := new(Index)
		index := heapOf(func() any {
			for i := range benchPods {
				x.Put(fromPod(decodedPod(b, i)))
			}
			return x
		})
		list := heapOf(func() any { return x.Images() })
		runtime.KeepAlive(x)
		objects := 10 * heapOf(func() any {
			pods := make([]*corev1.Pod, benchPods/10)
			for i := range pods {
				pods[i] = decodedPod(b, i)
			}
			return pods
		})
		b.ReportMetric(index/MB, "index-MB")
		b.ReportMetric((index+list)/MB, "index+list-MB")
		b.ReportMetric(objects/MB, "objects-MB")
		b.ReportMetric(objects/(index+list), "ratio")
	}
	b.ReportMetric(float64(len(encodedPod(b, 0))), "B/pod")
}

// BenchmarkImages is what a review costs after one pod has changed: of an image
// that 150 pods use, and of one that they all use.
func BenchmarkImages(b *testing.B) {
	for name, shared := range map[string]bool{"OwnImage": false, "EverybodysImage": true} {
		b.Run(name, func(b *testing.B) {
			x := new(Index)
			holder := func(i int, tag string) Holder {
				h := Holder{Kind: "Pod", Namespace: fmt.Sprint("team-", i%500), Name: fmt.Sprint("pod-", i)}
				h.add(Reference{Image: fmt.Sprintf("registry.example.com/app-%d", i%benchImages), Container: "app" + tag})
				if shared {
					h.add(Reference{Image: "registry.example.com/sidecar", Container: "sidecar" + tag})
				}
				return h
			}
			for i := range benchPods {
				x.Put(holder(i, ""))
			}
			x.Images()
			for i := 0; b.Loop(); i++ {
				x.Put(holder(i%benchPods, fmt.Sprint("-", i)))
				x.Images()
			}
		})
	}
}
