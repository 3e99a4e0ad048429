package images

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKindsWithPods(t *testing.T) {
	const doc = `{"components": {"schemas": {
		"io.k8s.PodSpec": {"properties": {"containers": {"items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Container"}], "default": {}}}}},
		"io.k8s.Container": {"properties": {"image": {"type": "string"}}},
		"a.Referring": {"x-kubernetes-group-version-kind": [{"kind": "Referring"}], "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/io.k8s.PodSpec"}]}}},
		"a.Inline": {"x-kubernetes-group-version-kind": [{"kind": "Inline"}], "properties": {"spec": {"properties": {"jobs": {"items": {"additionalProperties":
			{"properties": {"steps": {"items": {"properties": {"image": {}}}}}}}}}}}},
		"a.Reporting": {"x-kubernetes-group-version-kind": [{"kind": "Reporting"}], "properties": {"status": {"$ref": "#/components/schemas/io.k8s.PodSpec"}}},
		"a.Plain": {"x-kubernetes-group-version-kind": [{"kind": "Plain"}], "properties": {"containers": {"items": {"type": "string"}}, "x": {"additionalProperties": true}}},
		"a.Looping": {"x-kubernetes-group-version-kind": [{"kind": "Looping"}], "properties": {"again": {"$ref": "#/components/schemas/a.Looping"}}},
		"a.Options": {"x-kubernetes-group-version-kind": [{"kind": "X"}, {"kind": "Y"}], "properties": {"spec": {"$ref": "#/components/schemas/io.k8s.PodSpec"}}}
	}}}`
	kinds, err := KindsWithPods([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"Referring": true, "Inline": true}, kinds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
