// Package gitops carries out the recipes in examples/: what they tell an API server is sent to a real one,
// behind whose webhooks the guard stands, and what they run is run, by bash, with the real program.
package gitops

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// shopImages are in use. Their source has all of them, and so has mirror.example.com/shop; in
// mirror.example.com/empty there is none.
var shopImages = []string{"quay.io/shop/cart:v1", "quay.io/shop/bill:v1", "quay.io/shop/mail:v1"}

// A stage is a cluster with a shop, and one guard.
type stage struct {
	dir, binary string
	cluster     *cluster.Cluster
	front       *registries.Front
	guard       *process.Process
	audit       string // the API server's log of what a snapshot asks
}

// TestRecipes: what the recipes for pipelines run, what tools of GitOps ask an API server, and the snapshot
// as a CronJob.
func TestRecipes(t *testing.T) {
	skip.UnlessIntegration(t)
	s := newStage(t)
	s.release(t)
	t.Run("GitHub", s.testGitHub)
	t.Run("GitLab", s.testGitLab)
	t.Run("Tekton", s.testTekton)
	t.Run("pre-commit", s.testPreCommit)
	t.Run("a git hook", s.testGitHook)
	s.serve(t)
	t.Run("Argo CD", s.testArgoCD)
	t.Run("Advanced Cluster Management", s.testACM)
	t.Run("Flux", s.testFlux)
	t.Run("refresh", s.testRefresh)
	t.Run("snapshot", s.testSnapshot)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newStage(t testing.TB) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir()}
	s.binary, s.audit = filepath.Join(s.dir, "mirrorset-guard"), filepath.Join(s.dir, "audit.log")
	policy := filepath.Join(s.dir, "audit.yaml")
	must(t, os.WriteFile(policy, []byte(cluster.AuditOf(snapshotUser)), 0o600))
	s.cluster = cluster.New(t, cluster.WithAudit(policy, s.audit))
	s.front = registries.Start(t)
	must(t, cluster.BuildRelease(s.binary))
	must(t, os.WriteFile(s.registryCA(), s.front.CA, 0o600))
	img, err := registries.Image("shop")
	must(t, err)
	for _, ref := range shopImages {
		must(t, s.front.Push(ref, img))
		must(t, s.front.Push(strings.Replace(ref, "quay.io", "mirror.example.com", 1), img))
	}
	return s
}

func (s *stage) registryCA() string { return filepath.Join(s.dir, "registries.crt") }

// registryFlags lead to the registries.
func (s *stage) registryFlags() []string {
	flags := []string{"--registry-ca", s.registryCA(), "--allow-loopback"}
	for _, host := range []string{"quay.io", "mirror.example.com"} {
		flags = append(flags, "--resolve", host+"="+s.front.Addr(host))
	}
	return flags
}

func shop() string {
	text := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	for _, ref := range shopImages {
		name := strings.TrimSuffix(strings.TrimPrefix(ref, "quay.io/shop/"), ":v1")
		text += "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + ", namespace: shop}\n" +
			"spec: {selector: {matchLabels: {app: " + name + "}}, template: {metadata: {labels: {app: " + name + "}}, spec: {containers: [{name: app, image: \"" + ref + "\"}]}}}\n"
	}
	return text
}

// serve starts the guard, and has the API server ask it.
func (s *stage) serve(t testing.TB) {
	t.Helper()
	process.Install(t, s.cluster, shop(), map[string][]authorizationv1.ResourceAttributes{
		process.User: {{Verb: "list", Group: "config.openshift.io", Resource: "imagetagmirrorsets"}},
	})
	tls := filepath.Join(s.dir, "tls")
	must(t, os.Mkdir(tls, 0o700))
	ca, err := certificates.SelfSigned(tls, []string{"127.0.0.1"}, 24*time.Hour)
	must(t, err)
	s.guard = process.Start(t, s.binary, append(s.registryFlags(), "--kubeconfig", process.Kubeconfig(t, s.cluster, s.dir), "--tls-dir", tls, "--verify-every", "0s")...)
	s.guard.AwaitReady(t)
	config, err := process.Webhooks("https://"+s.guard.Listen, ca)
	must(t, err)
	text, err := yaml.Marshal(config)
	must(t, err)
	s.apply(t, string(text))
	s.guard.Eventually(t, "the API server asks the guard", func() bool {
		out, err := s.cluster.Kubectl(t.Context(), refusedSet("probe"), "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, "is refused")
	})
}

// refusedSet returns an ImageTagMirrorSet that the guard refuses.
func refusedSet(name string) string {
	return "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: " + name + "}\n" +
		"spec: {imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/empty], mirrorSourcePolicy: NeverContactSource}]}\n"
}

// goodSet is one that it admits.
func goodSet(name string) string {
	return strings.Replace(refusedSet(name), "/empty", "/shop", 1)
}

func (s *stage) apply(t testing.TB, text string) {
	t.Helper()
	if out, err := s.cluster.Kubectl(t.Context(), text, "apply", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s\n%s", err, out, text)
	}
}

// example returns a file of examples/.
func example(t testing.TB, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{repo.Root(), "examples"}, path...)...))
	must(t, err)
	return data
}

// documents returns the documents of a file, each as YAML.
func documents(t testing.TB, data []byte) [][]byte {
	t.Helper()
	var all [][]byte
	reader := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if len(bytes.TrimSpace(doc)) > 0 {
			all = append(all, doc)
		}
	}
}

// decode reads a document, in which no key may stand twice.
func decode[T any](t testing.TB, doc []byte) T {
	t.Helper()
	var o T
	data, err := yaml.YAMLToJSONStrict(doc)
	must(t, err)
	must(t, yaml.Unmarshal(data, &o))
	return o
}
