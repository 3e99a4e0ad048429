package images

import (
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func jsonOf(t *testing.T, object any) []byte {
	t.Helper()
	if text, ok := object.(string); ok {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeSaysWhatItDoesNotKnow(t *testing.T) {
	for _, kind := range []schema.GroupKind{{Kind: "ConfigMap"}, {Group: "example.com", Kind: "Deployment"}, {Group: "example.com", Kind: "NodePool"}} {
		if _, err := Decode(kind, []byte(`{"data": {"a": 1}}`)); !errors.Is(err, ErrKind) {
			t.Errorf("Decode(%s) = %v, want ErrKind", kind, err)
		}
	}
	const want = "reading Pod: json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"
	if _, err := Decode(schema.GroupKind{Kind: "Pod"}, []byte(`{"spec": 1}`)); err == nil || err.Error() != want {
		t.Errorf("Decode of a broken Pod = %v, want %s", err, want)
	}
}

// FuzzDecode holds extraction to its promise: whatever the object, no panic and
// no reference without an image.
func FuzzDecode(f *testing.F) {
	f.Add("", "Pod", []byte(`{"spec":{"containers":[{"image":"a"}],"volumes":[{"image":{}}]}}`))
	f.Add("apps", "Deployment", []byte(`{"spec":{"template":{"spec":{"containers":[{"args":["--image"],"env":[{"name":"IMAGE","value":"a.b/c"}]}]}}}}`))
	f.Add("image.openshift.io", "ImageStream", []byte(`{"status":{"tags":[{"tag":"a","items":[{"dockerImageReference":" "}]}]}}`))
	f.Add("operators.coreos.com", "ClusterServiceVersion", []byte(`{"spec":{"install":{"spec":{"deployments":[{"spec":{"template":{"spec":{}}}}]}}}}`))
	f.Add("build.openshift.io", "Build", []byte(`{"spec":{"source":{"dockerfile":"ARG A=$A$B\nFROM x:${A:-1} AS b\nRUN <<E\nE\nCOPY --from=b a a","images":[{"as":["x"]}]}}}`))
	f.Fuzz(func(t *testing.T, group, kind string, data []byte) {
		h, err := Decode(schema.GroupKind{Group: group, Kind: kind}, data)
		if err != nil {
			return
		}
		for _, r := range h.References {
			if r.Image == "" && r.Tag == "" {
				t.Errorf("%+v has no image", r)
			}
		}
	})
}
