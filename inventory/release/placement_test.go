package release

import (
	"strings"
	"testing"
)

// TestPlacement: an image runs on the control plane only if all that manifests do with it is to run it there.
func TestPlacement(t *testing.T) {
	const image = "quay.io/a/b@sha256:0000000000000000000000000000000000000000000000000000000000000001"
	deployment := func(annotations, spec, containers string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, annotations: {" + annotations + "}}\nspec: {template: {spec: {" + spec + "containers: [" + containers + "]}}}\n"
	}
	const master = `nodeSelector: {node-role.kubernetes.io/master: ""}, `
	run := `{name: a, image: "` + image + `"}`
	confined := deployment("", master, run)
	for _, tt := range []struct {
		reason, manifests string
		want              bool
	}{
		{"a Deployment of the control plane", confined, true},
		{"by the newer label", deployment("", `nodeSelector: {node-role.kubernetes.io/control-plane: ""}, `, run), true},
		{"an init container", deployment("", master+"initContainers: ["+run+"], ", `{name: b, image: other}`), true},
		{"a CronJob", "kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {" + master + "containers: [" + run + "]}}}}}\n", true},
		{"a pod", "kind: Pod\nspec: {" + master + "containers: [" + run + "]}\n", true},
		{"no selector", deployment("", "", run), false},
		{"workers", deployment("", `nodeSelector: {node-role.kubernetes.io/worker: ""}, `, run), false},
		{"tolerations are no selector", deployment("", `tolerations: [{key: node-role.kubernetes.io/master}], `, run), false},
		{"named to an operator as well", deployment("", master, `{name: a, image: "`+image+`", env: [{name: IMAGE, value: "`+image+`"}]}`), false},
		{"only named to an operator", deployment("", master, `{name: a, image: other, args: ["--image=`+image+`"]}`), false},
		{"run elsewhere by another document", confined + "---\n" + deployment("", "", run), false},
		{"named by a ConfigMap", confined + "---\nkind: ConfigMap\ndata: {images.json: '{\"a\": \"" + image + "\"}'}\n", false},
		{"elsewhere only where the control plane is hosted", confined + "---\n" + deployment(`include.release.openshift.io/ibm-cloud-managed: "true"`, "", run), true},
		{"elsewhere there, and here", confined + "---\n" + deployment(`include.release.openshift.io/ibm-cloud-managed: "true", include.release.openshift.io/self-managed-high-availability: "true"`, "", run), false},
		{"here, said so", deployment(`include.release.openshift.io/self-managed-high-availability: "true"`, master, run), true},
		{"a list", "kind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(confined), "\n", "\n  ") + "\n", false},
		{"no YAML", confined + "---\n{node-role.kubernetes.io/master: [\n", false},
		{"strange types", "kind: Deployment\nspec: {template: [node-role.kubernetes.io/master, '" + image + "']}\n", false},
		{"strange containers", "kind: Deployment\nspec: {template: {spec: {" + master + "containers: {a: '" + image + "'}}}}\n", false},
	} {
		f := &files{levels: map[string]int{}, placement: placement{map[string]bool{}, map[string]bool{}}}
		if err := f.manifest(t.Context(), "release-manifests/0000_10_a.yaml", []byte(tt.manifests)); err != nil {
			t.Errorf("%s: %v", tt.reason, err)
		}
		if got := f.onControlPlane(image); got != tt.want {
			t.Errorf("%s: got %t", tt.reason, got)
		}
	}
	f := &files{levels: map[string]int{}, placement: placement{map[string]bool{}, map[string]bool{}}}
	for _, manifest := range []string{confined, deployment("", "", run)} {
		if err := f.manifest(t.Context(), "release-manifests/0000_10_a.yaml", []byte(manifest)); err != nil {
			t.Error(err)
		}
	}
	if f.onControlPlane(image) || f.onControlPlane(strings.Replace(image, "0001", "0002", 1)) {
		t.Error("another manifest runs it elsewhere, and none names the other image")
	}
}
