package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// mustGather is laid out as "oc adm must-gather" does it (openshift/oc,
// pkg/cli/admin/inspect): lists by group and resource, and each pod once more in
// a folder of its own, next to its logs.
var mustGather = txtar.Parse([]byte(`
-- quay-io-must-gather/cluster-scoped-resources/config.openshift.io/imagedigestmirrorsets/release.yaml --
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: release}
spec: {imageDigestMirrors: [{source: quay.io/release, mirrors: [m.example.com/release]}]}
-- quay-io-must-gather/cluster-scoped-resources/config.openshift.io/images.yaml --
---
apiVersion: config.openshift.io/v1
items:
- apiVersion: config.openshift.io/v1
  kind: Image
  metadata: {name: cluster}
  spec: {registrySources: {insecureRegistries: [m.example.com]}}
kind: ImageList
metadata: {resourceVersion: "1"}
-- quay-io-must-gather/cluster-scoped-resources/core/nodes/worker-0.yaml --
---
apiVersion: v1
kind: Node
metadata: {name: worker-0, labels: {node-role.kubernetes.io/worker: ""}}
status: {nodeInfo: {architecture: amd64}}
-- quay-io-must-gather/cluster-scoped-resources/machineconfiguration.openshift.io/machineconfigpools/worker.yaml --
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker}
spec: {paused: true}
-- quay-io-must-gather/namespaces/openshift-ingress/core/pods.yaml --
---
apiVersion: v1
items:
- metadata: {name: router-1, namespace: openshift-ingress, resourceVersion: "7"}
  spec:
    containers:
    - {name: router, image: quay.io/release@sha256:aa}
  status: {phase: Running}
kind: PodList
metadata: {resourceVersion: "1"}
-- quay-io-must-gather/namespaces/openshift-ingress/core/events.yaml --
---
apiVersion: v1
items:
- kind: Event
  message: "
kind: EventList
-- quay-io-must-gather/namespaces/openshift-ingress/core/secrets.yaml --
---
apiVersion: v1
items: []
kind: SecretList
-- quay-io-must-gather/namespaces/openshift-ingress/pods/router-1/router-1.yaml --
---
apiVersion: v1
kind: Pod
metadata: {name: router-1, namespace: openshift-ingress, resourceVersion: "7"}
spec:
  containers:
  - {name: router, image: quay.io/release@sha256:aa}
status: {phase: Running}
-- quay-io-must-gather/namespaces/openshift-ingress/pods/router-1/router/router/logs/current.log --
kind: Pod
-- quay-io-must-gather/namespaces/openshift-ingress/policy/poddisruptionbudgets.yaml --
---
apiVersion: policy/v1
items:
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: router-default, namespace: openshift-ingress}
  spec: {maxUnavailable: 1}
kind: PodDisruptionBudgetList
-- quay-io-must-gather/namespaces/openshift-dns/apps/daemonsets.yaml --
---
apiVersion: apps/v1
items:
- apiVersion: apps/v1
  kind: DaemonSet
  metadata: {name: dns, namespace: openshift-dns}
  spec: {template: {spec: {containers: [{name: dns, image: quay.io/release@sha256:bb}]}}}
- apiVersion: apps/v1
  kind: DaemonSet
  metadata: {name: broken, namespace: openshift-dns}
  spec: none
kind: DaemonSetList
-- quay-io-must-gather/etcd_info/alarms.json --
[]
`))

func checkMustGather(t *testing.T, s *Snapshot, err error, file func(string) string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	images := []image{
		{"quay.io/release@sha256:aa", []string{"Pod openshift-ingress/router-1 router running"}},
		{"quay.io/release@sha256:bb", []string{"DaemonSet openshift-dns/dns dns referenced"}},
	}
	problems := []string{
		file("quay-io-must-gather/namespaces/openshift-dns/apps/daemonsets.yaml") +
			": document 1: item 2: reading DaemonSet: json: cannot unmarshal string into Go struct field DaemonSet.spec of type v1.DaemonSetSpec",
	}
	var got []string
	for _, p := range s.Problems() {
		got = append(got, p.Error())
	}
	for what, diff := range map[string]string{
		"images":    cmp.Diff(images, imagesOf(t, s)),
		"mirrors":   cmp.Diff([]string{"ImageDigestMirrorSet release quay.io/release"}, mirrorsOf(t, s)),
		"platforms": cmp.Diff([]string{"linux/amd64"}, policy.PlatformsOf(s.Nodes())),
		"problems":  cmp.Diff(problems, got),
		"skipped":   cmp.Diff(map[string]int{"Event": 1, "(no object)": 1}, s.skipped),
	} {
		if diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
	}
	if pools := s.RolloutObjects().Pools; len(pools) != 1 || !pools[0].Spec.Paused {
		t.Errorf("pools %v, want worker, paused", pools)
	}
	if budgets := s.RolloutObjects().Budgets; len(budgets) != 1 || budgets[0].Name != "router-default" {
		t.Errorf("budgets %v, want router-default", budgets)
	}
}

func TestReadMustGatherFolder(t *testing.T) {
	dir := t.TempDir()
	for _, f := range mustGather.Files {
		name := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(dir)
	checkMustGather(t, s, err, func(name string) string { return filepath.Join(dir, name) })
}

// archived returns the must-gather as it is sent.
func archived(t *testing.T) []byte {
	t.Helper()
	var data bytes.Buffer
	zipped := gzip.NewWriter(&data)
	archive := tar.NewWriter(zipped)
	for _, f := range mustGather.Files {
		header := &tar.Header{Name: "./" + f.Name, Mode: 0o644, Size: int64(len(f.Data)), Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(f.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

func TestReadMustGatherArchive(t *testing.T) {
	name := filepath.Join(t.TempDir(), "must-gather.tar.gz")
	if err := os.WriteFile(name, archived(t), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Read(name)
	checkMustGather(t, s, err, func(entry string) string { return name + ":" + entry })
}

func TestReadTruncatedArchive(t *testing.T) {
	data := archived(t)
	s, err := ReadFrom(bytes.NewReader(data[:len(data)/2]), "cut.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	// What came before the end may not be all.
	if diff := cmp.Diff([]string{"objects that could not be read, or that are there twice, may change the answer: cut.tar.gz:quay-io-must-gather/cluster-scoped-resources/machineconfiguration.openshift.io/machineconfigpools/worker.yaml: document 1: unexpected EOF; cut.tar.gz: unexpected EOF"}, mirrorsOf(t, s)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if p := s.Problems(); len(p) == 0 || !strings.Contains(p[len(p)-1].Error(), "unexpected EOF") {
		t.Errorf("problems %v, want that the end is missing", p)
	}
}

// TestCutArchive: one that is cut off anywhere, also where a tar has no mark of its own, is never taken for whole.
func TestCutArchive(t *testing.T) {
	zipped := archived(t)
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	plain = bytes.TrimRight(plain, "\x00") // the two empty blocks at its end, which a whole one has, come after this
	isWhole := func(archive []byte) bool {
		s, err := ReadFrom(bytes.NewReader(archive), "must-gather")
		return err == nil && !slices.ContainsFunc(s.Problems(), func(p Problem) bool { return strings.HasPrefix(p.Error(), "must-gather: ") })
	}
	if !isWhole(zipped) {
		t.Fatal("the whole one is not")
	}
	for archive, step := range map[*[]byte]int{&zipped: len(zipped)/20 + 1, &plain: 512} {
		for at := step; at < len(*archive); at += step {
			if isWhole((*archive)[:at]) {
				t.Errorf("cut at %d of %d, it is taken for whole", at, len(*archive))
			}
		}
	}
}

func TestReadCompressedFile(t *testing.T) {
	var data bytes.Buffer
	zipped := gzip.NewWriter(&data)
	if _, err := zipped.Write([]byte(podYAML)); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := ReadFrom(&data, "pod.yaml.gz")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(podImages, imagesOf(t, s)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
