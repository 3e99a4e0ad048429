package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
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
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, `IMAGE                          USE         USERS
=cmd|' /C calc'!A1             referenced  CronJob shop/report (app)
quay.io/mesh/proxy:v1          running     Deployment bank/pay (proxy), Deployment shop/cart (proxy) and 1 more
quay.io/shop/cart:v1           running     Deployment shop/cart (app), Pod shop/cart-1 (app)
quay.io/shopping/installer:v1  history     Pod kube-system/installer-1 (installer)
quay.io:443/bank/pay:v1        referenced  Deployment bank/pay (app)
`},
		{[]string{"-o", "wide", "--namespace", "shop", "--registry", "quay.io"}, `IMAGE                  USE      RUNNING                                                                  NAMESPACES  USERS
quay.io/mesh/proxy:v1  running  -                                                                        bank,shop   Deployment bank/pay (proxy), Deployment shop/cart (proxy), Pod shop/cart-1 (proxy)
quay.io/shop/cart:v1   running  sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  shop        Deployment shop/cart (app), Pod shop/cart-1 (app)
`},
		{[]string{"-o", "csv"}, `image,use,kind,namespace,name,container,digest
'=cmd|' /C calc'!A1,referenced,CronJob,shop,report,app,
quay.io/mesh/proxy:v1,referenced,Deployment,bank,pay,proxy,
quay.io/mesh/proxy:v1,referenced,Deployment,shop,cart,proxy,
quay.io/mesh/proxy:v1,running,Pod,shop,cart-1,proxy,
quay.io/shop/cart:v1,referenced,Deployment,shop,cart,app,
quay.io/shop/cart:v1,running,Pod,shop,cart-1,app,sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
quay.io/shopping/installer:v1,history,Pod,kube-system,installer-1,installer,
quay.io:443/bank/pay:v1,referenced,Deployment,bank,pay,app,
`},
		{[]string{"-o", "refs", "--unused"}, `quay.io/shopping/installer:v1
quay.io:443/bank/pay:v1
`},
		{[]string{"-o", "refs", "--registry", "quay.io/shop"}, "quay.io/shop/cart:v1\n"},
		{[]string{"-o", "refs", "--registry", "quay.io/shop/"}, "quay.io/shop/cart:v1\n"},
		{[]string{"-o", "refs", "--unused", "-n", "shop"}, ""},
		{[]string{"-o", "json", "--registry", "quay.io/shop/cart"}, `{
  "apiVersion": "mirrorset-guard.io/v1alpha1",
  "kind": "Inventory",
  "images": [
    {
      "image": "quay.io/shop/cart:v1",
      "users": [
        {
          "kind": "Deployment",
          "namespace": "shop",
          "name": "cart",
          "container": "app",
          "use": "referenced"
        },
        {
          "kind": "Pod",
          "namespace": "shop",
          "name": "cart-1",
          "container": "app",
          "use": "running",
          "digest": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        }
      ]
    }
  ]
}
`},
		{[]string{"-o", "json", "-n", "nowhere"}, `{
  "apiVersion": "mirrorset-guard.io/v1alpha1",
  "kind": "Inventory",
  "images": []
}
`},
		{[]string{"-o", "csv", "-n", "nowhere"}, "image,use,kind,namespace,name,container,digest\n"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, got, stderr := inventoryOf(t, tt.args...)
			// What no node could parse stays out of a list for tools.
			wantErr := ""
			if slices.Contains(tt.args, "refs") && slices.Contains(tt.args, "--unused") {
				wantErr = "mirrorset-guard: left out 1 reference that no node could parse; -o table shows them\n"
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || code != cli.ExitAdmitted || stderr != wantErr {
				t.Errorf("exit code %d, stderr %q, -want +got:\n%s", code, stderr, diff)
			}
		})
	}
}

func TestInventoryTrouble(t *testing.T) {
	code, out, stderr := inventoryOf(t, "-o", "xml")
	const want = "mirrorset-guard: --output \"xml\": choose one of table, wide, json, yaml, csv, refs, html\n"
	if code != cli.ExitTrouble || out != "" || stderr != want {
		t.Errorf("exit code %d, %q, %q", code, out, stderr)
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
		{"a name that goes on", stream("tools") + pod("quay.io/shop/support-tools/web:1"), []string{"--rescue"}, note},
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
