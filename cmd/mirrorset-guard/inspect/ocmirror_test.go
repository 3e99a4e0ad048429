package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// What oc-mirror v2 writes to working-dir/cluster-resources.
const (
	ocMirrorSets = `---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  annotations: {createdAt: "Tue, 04 Aug 2026 10:00:00 UTC", createdBy: oc-mirror v2}
  name: idms-operator-0
spec:
  imageDigestMirrors:
  - {mirrors: ["mirror.example.com:8443/a/b/shop"], source: quay.io/shop}
status: {}
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata:
  annotations: {createdBy: oc-mirror v2}
  name: itms-generic-0
spec:
  imageTagMirrors:
  - {mirrors: ["mirror.example.com:8443/wide"], source: registry.example.org}
status: {}
`
	ocMirrorCatalogs = `apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cs-redhat-operator-index-v4-22, namespace: openshift-marketplace}
spec: {image: "mirror.example.com:8443/redhat/redhat-operator-index:v4.22", sourceType: grpc}
status: {}
---
apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
metadata: {name: cc-redhat-operator-index-v4-22}
spec: {priority: 0, source: {image: {ref: "mirror.example.com:8443/redhat/redhat-operator-index:v4.22"}, type: Image}}
status: {}
`
	ocMirrorUpdateService = `apiVersion: updateservice.operator.openshift.io/v1
kind: UpdateService
metadata: {name: update-service-oc-mirror}
spec: {graphDataImage: "mirror.example.com:8443/openshift/graph-image@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", releases: "mirror.example.com:8443/openshift/release-images", replicas: 2}
status: {}
`
	ocMirrorSignatures = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"mirrored-release-signatures","namespace":"openshift-config-managed","labels":{"release.openshift.io/verification-signatures":""}},
"binaryData":{"sha256-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1":"c2lnbmVk"}}
`
)

// workingDir writes a working directory of oc-mirror, and returns its cluster-resources.
func workingDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cluster-resources")
}

// TestClusterResources: what oc-mirror wrote is one change, with the catalogs that it brings and the objects
// that it replaces.
func TestClusterResources(t *testing.T) {
	h := newMirrorHouse(t)
	inForce := `---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms-operator-0, annotations: {createdBy: oc-mirror v2}}
spec: {imageDigestMirrors: [{source: registry.redhat.io/openshift4, mirrors: ["mirror.example.com:8443/openshift4"]}, {source: quay.io/shop, mirrors: ["mirror.example.com:8443/a/b/shop"]}]}
`
	h.dump = clitest.Written(t, "cluster.yaml", h.cluster()+inForce)
	files := map[string]string{
		"cluster-resources/idms-oc-mirror.yaml": ocMirrorSets, "cluster-resources/cs-redhat-operator-index.yaml": ocMirrorCatalogs,
		"cluster-resources/updateService.yaml": ocMirrorUpdateService, "cluster-resources/signature-configmap.json": ocMirrorSignatures, "cluster-resources/signature-configmap.yaml": ocMirrorSignatures,
	}
	h.change = workingDir(t, files)
	got := h.check(t, nil)
	for _, want := range []string{
		"used by CatalogSource openshift-marketplace/cs-redhat-operator-index-v4-22 (spec.image), ClusterCatalog cc-redhat-operator-index-v4-22 (spec.source.image.ref)",
		"used by UpdateService update-service-oc-mirror (spec.graphDataImage)",
		"Note: ImageDigestMirrorSet idms-operator-0 REPLACES the one in force, which may have been made of another image set: oc-mirror gives both the same name. This source goes: registry.redhat.io/openshift4. To keep both, rename one",
		"Note: ImageTagMirrorSet itms-generic-0 covers a whole registry: registry.example.org. oc-mirror has mirrored only a part of it",
		"the change brings CatalogSource openshift-marketplace/cs-redhat-operator-index-v4-22, ClusterCatalog cc-redhat-operator-index-v4-22, UpdateService update-service-oc-mirror: 2 images of its own count as needed",
		"the change brings 1 signature of releases",
	} {
		if got.Code != cli.ExitDenied || !strings.Contains(got.Out, want) {
			t.Errorf("exit code %d, want %q\n%s%s", got.Code, want, got.Out, got.Err)
		}
	}
	if strings.Contains(got.Err, "left out") {
		t.Errorf("something was left out:\n%s%s", got.Err, got.Out)
	}
	t.Run("what is there", func(t *testing.T) {
		index, err := registries.Index("catalog")
		if err == nil {
			err = h.PushIndex(house+"/redhat/redhat-operator-index:v4.22", index)
		}
		if err != nil {
			t.Fatal(err)
		}
		delete(files, "cluster-resources/updateService.yaml")
		h.change = workingDir(t, files)
		if got := h.check(t, nil); got.Code != cli.ExitAdmitted || !strings.Contains(got.Out, "reroutes 1 of 4 images, all verified") {
			t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
		}
	})
}

// TestTwoImageSets: what oc-mirror wrote for two image sets has the same names, and so loses the first.
func TestTwoImageSets(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", dumpInForce)
	of := func(source string) string {
		return workingDir(t, map[string]string{"cluster-resources/idms.yaml": strings.ReplaceAll(ocMirrorSets, "quay.io/shop", source)})
	}
	got := invoke(t, "", "check", "--from", dump, "-f", of("registry.example.org/a"), "-f", of("registry.example.org/b"))
	if !strings.Contains(got.Out, "Note: ImageDigestMirrorSet idms-operator-0 is in the change more than once: that of ") || !strings.Contains(got.Out, " REPLACES the one before") {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

func TestClusterResourcesBadInput(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", dumpInForce)
	for _, tt := range []struct{ reason, name, text, want string }{
		{"a catalog without a name", "cs.yaml", strings.Replace(ocMirrorCatalogs, "name: cs-redhat-operator-index-v4-22, ", "", 1), "cs.yaml, document 1: CatalogSource: metadata.name is empty"},
		{"an UpdateService without its image", "us.yaml", strings.Replace(ocMirrorUpdateService, "graphDataImage", "graphImage", 1), "us.yaml, document 1: UpdateService update-service-oc-mirror: spec.graphDataImage: Required value"},
		{"signatures under another key", "sig.yaml", strings.Replace(ocMirrorSignatures, "-1\"", "\"", 1), `ConfigMap mirrored-release-signatures: binaryData: Invalid value: "sha256-aaaa`},
		{"signatures in another namespace", "sig.yaml", strings.Replace(ocMirrorSignatures, "openshift-config-managed", "default", 1), `metadata.namespace: Invalid value: "default"`},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			dir := workingDir(t, map[string]string{"cluster-resources/idms.yaml": ocMirrorSets, "cluster-resources/" + tt.name: tt.text})
			got := invoke(t, "", "check", "--from", dump, "-f", dir)
			if got.Code != cli.ExitTrouble || !strings.Contains(got.Err, tt.want) {
				t.Errorf("exit code %d, want %q\n%s%s", got.Code, tt.want, got.Out, got.Err)
			}
		})
	}
}
