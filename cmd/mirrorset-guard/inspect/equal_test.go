//go:build integration

package inspect

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// TestDumpOfACluster: what a cluster and a dump of all that it serves say of images is the
// same, and so is what a snapshot of either says.
func TestDumpOfACluster(t *testing.T) {
	c := cluster.New(t)
	const (
		template = `{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "IMAGE", args: ["-images=one=quay.io/args/one:1,two=quay.io/args/two:1"], env: [{name: RELATED_IMAGE_X, value: "quay.io/env/x:1"}]}]}}`
		selector = `selector: {matchLabels: {a: b}}`
	)
	of := func(image string) string { return strings.ReplaceAll(template, "IMAGE", image) }
	c.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-controller-manager-operator}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: own, namespace: openshift-shop}
imagePullSecrets: [{name: mine}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: openshift-shop, annotations: {openshift.io/internal-registry-pull-secret-ref: default-dockercfg-abcde}}
imagePullSecrets: [{name: default-dockercfg-abcde}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: openshift-shop}
spec: {replicas: 0, `+selector+`, template: `+of("quay.io/shop/web:2")+`}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-1
  namespace: openshift-shop
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: "1", controller: true}]
spec: {replicas: 0, `+selector+`, template: `+of("quay.io/shop/web:1")+`}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: strange-1
  namespace: openshift-shop
  ownerReferences: [{apiVersion: example.com/v1, kind: Stranger, name: web, uid: "1", controller: true}]
spec: {replicas: 0, `+selector+`, template: `+of("quay.io/shop/strange:1")+`}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: openshift-shop}
spec: {serviceName: db, `+selector+`, template: `+strings.Replace(of("quay.io/shop/db:1"), "spec: {", "spec: {serviceAccountName: own, ", 1)+`}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: pt, namespace: openshift-shop}
template: `+of("quay.io/shop/pt:1")+`
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: cron, namespace: openshift-shop}
spec: {schedule: "0 0 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "quay.io/shop/cron:1"}]}}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: openshift-controller-manager-images, namespace: openshift-controller-manager-operator}
data: {builder: "quay.io/rel/builder:1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: my-images, namespace: openshift-shop}
data: {x: "quay.io/rel/guess:1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: openshift-shop}
data: {x: "quay.io/rel/none:1"}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: rc, namespace: openshift-shop}
spec: {replicas: 0, selector: {a: b}, template: `+of("cart:latest")+`}
`)
	kinds, err := c.Kubectl(t.Context(), "", "api-resources", "--verbs=list", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, kind := range strings.Fields(string(kinds)) {
		if kind != "secrets" && !strings.HasPrefix(kind, "events") {
			wanted = append(wanted, kind)
		}
	}
	dump, err := c.Kubectl(t.Context(), "", "get", strings.Join(wanted, ","), "-A", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	images := func(args ...string) any {
		t.Helper()
		got := invoke(t, "", append(args, "-o", "json")...)
		var doc map[string]any
		if err := json.Unmarshal([]byte(got.Out), &doc); err != nil || got.Code != cli.ExitAdmitted {
			t.Fatalf("%q: exit code %d, %v\n%s", args, got.Code, err, got.Err)
		}
		return doc["images"]
	}
	file := clitest.Written(t, "dump.yaml", string(dump))
	live, dumped := images("inventory", "--kubeconfig", c.Kubeconfig), images("inventory", "--from", file)
	if diff := cmp.Diff(live, dumped); diff != "" {
		t.Errorf("-cluster +dump:\n%s", diff)
	}
	for _, from := range [][]string{{"--kubeconfig", c.Kubeconfig}, {"--from", file}} {
		kept := invoke(t, "", append([]string{"snapshot"}, from...)...)
		if diff := cmp.Diff(live, images("inventory", "--from", clitest.Written(t, "kept.json", kept.Out))); diff != "" {
			t.Errorf("-cluster +snapshot of %q:\n%s", from, diff)
		}
	}
}

// TestReleaseDoors: a live cluster, whose proxy all requests go through, and a snapshot of it give the same answer.
func TestReleaseDoors(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 6)}
	s.Without()
	c := cluster.New(t)
	c.InstallCRD(t, "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-TechPreviewNoUpgrade.crd.yaml")
	c.ApplyWithStatus(t, s.Objects(s.Signed))
	live := invoke(t, "", "release", "next", "--kubeconfig", c.Kubeconfig, "--allow-loopback", "-o", "json")
	if doc := decodeRelease(t, live); live.Code != cli.ExitAdmitted || doc.Verdict != "READY" {
		t.Fatalf("got %d, %s%s", live.Code, live.Out, live.Err)
	}
	file := filepath.Join(t.TempDir(), "cluster.json")
	if got := invoke(t, "", "snapshot", "--kubeconfig", c.Kubeconfig, "-f", file); got.Code != 0 {
		t.Fatal(got.Err)
	}
	if got := same(t, s.check(t, file, "next", "-o", "json", "--pull-secret", clitest.Written(t, "pull.json", "{}"))); got != same(t, live) {
		t.Errorf("by the snapshot:\n%s\nlive:\n%s", got, same(t, live))
	}
	if out, err := c.Kubectl(t.Context(), "", "delete", "customresourcedefinitions", "clusterversions.config.openshift.io"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantOutcome(t, invoke(t, "", "release", testrelease.Version, "--kubeconfig", c.Kubeconfig, "--allow-loopback"), cli.ExitTrouble, "release 4.21.3: there is no ClusterVersion")
}

// same returns what does not depend on the way of asking.
func same(t *testing.T, got clitest.Outcome) string {
	t.Helper()
	doc := decodeRelease(t, got)
	doc.Seconds, doc.Notes = 0, nil
	doc.Remedy = regexp.MustCompile(` --(from|kubeconfig|pull-secret) \S+`).ReplaceAllString(doc.Remedy, "")
	return asJSON(t, doc)
}
