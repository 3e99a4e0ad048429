package inspect

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// inventoryDump has an image of each use, one that two namespaces share, one that no
// node could parse, and one that is a formula to a spreadsheet.
const inventoryDump = `
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop}
spec: {containers: [{name: app, image: "quay.io/shop/cart:v1"}, {name: proxy, image: "quay.io/mesh/proxy:v1"}]}
status:
  phase: Running
  containerStatuses: [{name: app, imageID: "quay.io/shop/cart@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
spec: {template: {spec: {containers: [{name: app, image: "quay.io/shop/cart:v1"}, {name: proxy, image: "quay.io/mesh/proxy:v1"}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: pay, namespace: bank}
spec: {replicas: 0, template: {spec: {containers: [{name: app, image: "quay.io:443/bank/pay:v1"}, {name: proxy, image: "quay.io/mesh/proxy:v1"}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop}
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: app, image: "=cmd|' /C calc'!A1"}]}}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: installer-1, namespace: kube-system}
spec: {containers: [{name: installer, image: "quay.io/shopping/installer:v1"}]}
status: {phase: Succeeded}
`

// inventoryOf runs the command on the dump.
func inventoryOf(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), append([]string{"inventory", "--from", "-"}, args...), strings.NewReader(inventoryDump), &out, &err)
	return code, out.String(), err.String()
}

func TestInventoryFormats(t *testing.T) {
	same := golden.Archive(t, "testdata/inventory.txtar")
	for _, args := range []string{
		"", "-o wide --namespace shop --registry quay.io", "-o refs --unused", "-o refs --registry quay.io/shop", "-o refs --registry quay.io/shop/",
		"-o refs --unused -n shop", "-o json --registry quay.io/shop/cart", "-o json -n nowhere",
	} {
		t.Run(args, func(t *testing.T) {
			code, got, stderr := inventoryOf(t, strings.Fields(args)...)
			same(t, strings.TrimSpace("inventory "+args), clitest.Outcome{Out: got, Err: stderr, Code: code}.String())
		})
	}
}

// TestInventoryRescueNote: of the image that no object of a cluster names, and that is started all the same, a note says so, if the
// cluster is one of OpenShift and names no copy of it.
func TestInventoryRescueNote(t *testing.T) {
	stream := func(name string) string {
		return "---\napiVersion: image.openshift.io/v1\nkind: ImageStream\nmetadata: {namespace: openshift, name: " + name + "}\n" +
			"spec: {tags: [{name: latest, from: {kind: DockerImage, name: \"quay.io/release/" + name + ":v1\"}}]}\n"
	}
	pod := func(image string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: tools, name: tools}\nspec: {containers: [{name: c, image: \"" + image + "\"}]}\n"
	}
	const note = "Note: nothing names registry.redhat.io/rhel9/support-tools:latest, which toolbox starts on a node, and oc debug where ImageStream openshift/tools is not imported. " +
		"Where nodes look for it: mirrorset-guard explain registry.redhat.io/rhel9/support-tools:latest --probe\n"
	for _, tt := range []struct {
		reason, dump string
		args         []string
		want         string
	}{
		{"nothing names it", stream("must-gather"), []string{"--rescue"}, note},
		{"other images are listed", stream("must-gather"), nil, ""},
		{"a pod names it", stream("must-gather") + pod("registry.redhat.io/rhel9/support-tools"), []string{"--rescue"}, ""},
		{"a pod names a copy", stream("must-gather") + pod("mirror.example.com/rhel9/support-tools:2"), []string{"--rescue"}, ""},
		{"a name that goes on", stream("must-gather") + pod("quay.io/shop/support-tools/web:1"), []string{"--rescue"}, note},
		{"none at all", pod("quay.io/shop/cart:1"), []string{"--rescue"}, "mirrorset-guard: nothing names any such image\n"},
		{"a tenant's image that is called so, in no cluster of OpenShift", pod("quay.io/shop/must-gather:1"), []string{"--rescue"}, "mirrorset-guard: nothing names any such image\n"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var out, err bytes.Buffer
			code := run(t.Context(), append([]string{"inventory", "--from", "-"}, tt.args...), strings.NewReader(tt.dump), &out, &err)
			if code != cli.ExitAdmitted || err.String() != tt.want || strings.Contains(out.String(), "rhel9/support-tools:latest") {
				t.Errorf("exit code %d, %q, %s", code, err.String(), out.String())
			}
		})
	}
}
