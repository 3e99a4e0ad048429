package workloads

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// podFrom reads a pod as an API server sends it: anew each time, so that pods share nothing.
func podFrom(t testing.TB, manifest string) *corev1.Pod {
	t.Helper()
	pod := new(corev1.Pod)
	if err := yaml.UnmarshalStrict([]byte(manifest), pod); err != nil {
		t.Fatalf("%s: %v", manifest, err)
	}
	return pod
}

// again returns a copy of pod that shares nothing with it, as another encoding makes it.
func again(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	other := new(corev1.Pod)
	if err := other.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return other
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
