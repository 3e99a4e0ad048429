package mirrors

import (
	"encoding/json"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
)

// TestEditAsJSON: an edit of any kind does the same after it was written and read.
func TestEditAsJSON(t *testing.T) {
	objects := map[string]string{
		"a tag mirror set":       `{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: a, labels: {team: shop}, annotations: {big: "1"}}, spec: {imageTagMirrors: [{source: quay.io, mirrors: [m.example.com], mirrorSourcePolicy: NeverContactSource}]}}`,
		"a digest mirror set":    `{apiVersion: config.openshift.io/v1, kind: ImageDigestMirrorSet, metadata: {name: a}, spec: {imageDigestMirrors: [{source: quay.io, mirrors: [m.example.com]}]}}`,
		"a content policy":       `{apiVersion: operator.openshift.io/v1alpha1, kind: ImageContentSourcePolicy, metadata: {name: a}, spec: {repositoryDigestMirrors: [{source: quay.io, mirrors: [m.example.com]}]}}`,
		"the Image config":       `{apiVersion: config.openshift.io/v1, kind: Image, metadata: {name: cluster}, spec: {registrySources: {blockedRegistries: [x.io]}, additionalTrustedCA: {name: cas}}}`,
		"a cluster image policy": `{apiVersion: config.openshift.io/v1, kind: ClusterImagePolicy, metadata: {name: a}, spec: {scopes: [quay.io], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: Zm9v}}}}}`,
		"an image policy":        `{apiVersion: config.openshift.io/v1, kind: ImagePolicy, metadata: {name: a, namespace: shop}, spec: {scopes: [quay.io]}}`,
	}
	for what, text := range objects {
		o, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for name, edit := range map[string]Edit{"put": Put(o), "delete": Delete(o), "remove": RemoveFinally(o), "with another": Put(o).With(Delete(o))} {
			data, err := json.Marshal(edit)
			if err != nil {
				t.Fatalf("%s %s: %v", name, what, err)
			}
			var read Edit
			if err := json.Unmarshal(data, &read); err != nil {
				t.Fatalf("%s %s: %v\n%s", name, what, err, data)
			}
			before := Put(o).Apply(Set{})
			if after := read.Apply(before); !after.Equal(edit.Apply(before)) || len(read.steps) != len(edit.all()) || read.steps[0].kind != edit.all()[0].kind {
				t.Errorf("%s %s: it does something else: %s", name, what, data)
			}
			if name == "put" && read.steps[0].object.GetLabels()["team"] != o.GetLabels()["team"] || strings.Contains(string(data), "annotations") {
				t.Errorf("%s %s: %s", name, what, data)
			}
		}
	}
}

// TestEditNotAsJSON: what cannot be judged is not written, and not read by half.
func TestEditNotAsJSON(t *testing.T) {
	for _, e := range []Edit{Put(nil), Put((*configv1.Image)(nil)), Put(&operatorv1alpha1.ImageContentSourcePolicy{}).With(Put(nil))} {
		if data, err := json.Marshal(e); err == nil {
			t.Errorf("written: %s", data)
		}
	}
	const object = `{"apiVersion":"config.openshift.io/v1","kind":"Image","metadata":{"name":"cluster"}}`
	for _, text := range []string{
		`{}`, `[{}]`, `[{"do":"put"}]`, `[{"do":"dance","object":` + object + `}]`,
		`[{"do":"put","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}}]`,
		`[{"do":"put","object":{"apiVersion":"config.openshift.io/v1","kind":"Image"}}]`,
		`[{"do":"put","object":` + object + `},{"do":"put","object":7}]`,
	} {
		var e Edit
		if err := json.Unmarshal([]byte(text), &e); err == nil || len(e.steps) != 0 {
			t.Errorf("%s was read: %v", text, e)
		}
	}
}
