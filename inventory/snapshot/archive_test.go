package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
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
var mustGather = txtar.Parse(mustGatherText)

//go:embed testdata/must-gather.txtar
var mustGatherText []byte

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
