package snapshot

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// What a reviewer asks for; inventories know of no reviewer.
var _ interface {
	Mirrors(context.Context) (mirrors.Set, error)
	Images(context.Context) (policy.Images, error)
	Notes() []string
} = (*Snapshot)(nil)

// image is what a test wants to see of one: its reference and its consumers, as
// "Kind namespace/name container use digest".
type image struct {
	Ref       string
	Consumers []string
}

func imagesOf(t *testing.T, s *Snapshot) []image {
	t.Helper()
	images, err := s.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []image
	for _, img := range images.ByReference() {
		out = append(out, image{img.Ref, consumersOf(img)})
	}
	return out
}

func consumersOf(img policy.Image) []string {
	var consumers []string
	for _, u := range img.Consumers {
		consumers = append(consumers, strings.TrimSpace(strings.Join([]string{
			u.Kind, u.Namespace + "/" + u.Name, u.Container, u.Use.String(), u.Digest, map[bool]string{true: "own pull secret"}[u.OwnPullSecret && !u.PullSecretUnknown],
		}, " ")))
	}
	return consumers
}

func mirrorsOf(t *testing.T, s *Snapshot) []string {
	t.Helper()
	set, err := s.Mirrors(t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	return convert.Each(set.Entries(), func(e mirrors.Entry) string { return mirrors.NameOf(e.Object) + " " + e.Source })
}

const podYAML = `apiVersion: v1
kind: Pod
metadata: {name: app-0, namespace: shop}
spec:
  containers: [{name: app, image: "quay.io/shop/app:1"}]
status:
  phase: Running
  containerStatuses: [{name: app, imageID: "quay.io/shop/app@sha256:e3b0"}]
`

var podImages = []image{{"quay.io/shop/app:1", []string{"Pod shop/app-0 app running sha256:e3b0"}}}

// TestReadFrom holds what is read of the dumps in testdata to what stands there below each.
func TestReadFrom(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/read.txtar")
	if err != nil || len(archive.Files) == 0 {
		t.Fatal(err)
	}
	same := golden.Archive(t, "testdata/read.txtar")
	for _, f := range archive.Files {
		t.Run(f.Name, func(t *testing.T) {
			dump, _, _ := strings.Cut(string(f.Data), "=>\n")
			s, err := ReadFrom(strings.NewReader(strings.TrimSuffix(dump, "\n")), "f.yaml")
			if err != nil {
				t.Fatal(err)
			}
			told := ""
			for _, i := range imagesOf(t, s) {
				told += "image " + i.Ref + ": " + strings.Join(i.Consumers, ", ") + "\n"
			}
			for _, m := range mirrorsOf(t, s) {
				told += "mirrors of " + m + "\n"
			}
			for _, p := range s.Problems() {
				told += "problem: " + p.Error() + "\n"
			}
			for _, n := range s.Notes() {
				told += "note: " + n + "\n"
			}
			same(t, f.Name, dump+"=>\n"+told)
		})
	}
}

//go:embed testdata/conditions.yaml
var conditions string

// What an object says may depend on others, before it in the dump or after it.
func TestReadConditions(t *testing.T) {
	lines := func(s *Snapshot) string {
		images, err := s.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, img := range images.ByReference() {
			for _, u := range img.Consumers {
				line := fmt.Sprintf("%s %s %s/%s %s %s", img.Ref, u.Kind, u.Namespace, u.Name, u.Container, u.Use)
				switch {
				case u.PullSecretUnknown:
					line += " pull secret unknown"
				case u.OwnPullSecret:
					line += " own pull secret"
				}
				lines = append(lines, line+"\n")
			}
		}
		return strings.Join(lines, "")
	}
	documents := strings.Split("\n"+conditions, "---")
	for range documents {
		documents = append(documents[1:], documents[0])
		s, err := ReadFrom(strings.NewReader(strings.Join(documents, "---")), "dump")
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, "testdata/conditions.txt", lines(s))
		again, err := ReadFrom(strings.NewReader(written(t, s)), "written")
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, "testdata/conditions.txt", lines(again))
	}
}

func TestReadFromNothing(t *testing.T) {
	tests := []struct{ reason, text, want string }{
		{"an empty stream", "", "f has no Kubernetes objects"},
		{"an error page of a proxy", "<html>\n", "f has no Kubernetes objects"},
		{"nothing but values", "a: 1\n", "f has no Kubernetes objects"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := ReadFrom(strings.NewReader(tt.text), "f")
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestReadFolder(t *testing.T) {
	dir := t.TempDir()
	archive := txtar.Parse([]byte(`
-- workloads/app.yaml --
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec: {template: {spec: {containers: [{name: agent, image: "quay.io/shop/agent:1"}]}}}
-- mirrors.yml --
apiVersion: operator.openshift.io/v1alpha1
kind: ImageContentSourcePolicy
metadata: {name: old}
spec: {repositoryDigestMirrors: [{source: quay.io/old, mirrors: [m.example.com/old]}]}
-- node.json --
{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"nodeInfo":{"architecture":"arm64"}}}
-- broken.yaml --
{
-- notes.txt --
not a manifest
-- .git/config.yaml --
{
`))
	for _, f := range archive.Files {
		name := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]image{{"quay.io/shop/agent:1", []string{"DaemonSet shop/agent agent referenced"}}}, imagesOf(t, s)); diff != "" {
		t.Errorf("images: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ImageContentSourcePolicy old quay.io/old"}, mirrorsOf(t, s)); diff != "" {
		t.Errorf("mirrors: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"linux/arm64"}, policy.PlatformsOf(s.Nodes())); diff != "" {
		t.Errorf("platforms: -want +got:\n%s", diff)
	}
	if p := s.Problems(); len(p) != 1 || p[0].File != filepath.Join(dir, "broken.yaml") {
		t.Errorf("problems %v, want one, of broken.yaml", p)
	}
}

func TestReadMissingFile(t *testing.T) {
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
}

func TestAccessors(t *testing.T) {
	s, err := ReadFrom(strings.NewReader(podYAML+`---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}, status: {nodeInfo: {architecture: arm64}}}
- {apiVersion: v1, kind: Node, metadata: {name: b}, status: {nodeInfo: {architecture: amd64}}}
- {apiVersion: v1, kind: Node, metadata: {name: c}, status: {nodeInfo: {architecture: amd64}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- {apiVersion: v1, kind: Namespace, metadata: {name: blog}}
- apiVersion: v1
  kind: Secret
  metadata: {name: pull-secret, namespace: openshift-config}
  data: {.dockerconfigjson: e30=}
- apiVersion: config.openshift.io/v1
  kind: Image
  metadata: {name: cluster}
  spec: {registrySources: {blockedRegistries: [docker.io]}}
- apiVersion: config.openshift.io/v1
  kind: Image
  metadata: {name: other}
  spec: {registrySources: {blockedRegistries: [quay.io]}}
`), "f")
	if err != nil {
		t.Fatal(err)
	}
	set, err := s.Mirrors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for what, diff := range map[string]string{
		"platforms":          cmp.Diff([]string{"linux/amd64", "linux/arm64"}, policy.PlatformsOf(s.Nodes())),
		"pull secret":        cmp.Diff("{}", string(s.PullSecret())),
		"blocked registries": cmp.Diff([]string{"docker.io"}, set.Registries.BlockedRegistries),
	} {
		if diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
	}
}

func TestNodesWithoutImagesAreAFault(t *testing.T) {
	s, err := ReadFrom(strings.NewReader(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`), "f")
	if err != nil {
		t.Fatal(err)
	}
	const want = "the dump has 1 node and no object that names an image: it cannot be complete"
	if _, err := s.Images(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// endless is a stream that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestFilesAreBounded(t *testing.T) {
	l := &limited{endless{}, 1 << 20, 10}
	n, err := l.Read(make([]byte, 100))
	if n != 10 || err != nil {
		t.Fatalf("read %d bytes, %v, want the 10 that are allowed", n, err)
	}
	if _, err := l.Read(make([]byte, 1)); err == nil || err.Error() != "larger than 1 MiB: the end is missing" {
		t.Errorf("beyond the limit: %v", err)
	}
}

// The largest objects of a cluster come near 1 MiB, in one line of JSON or in
// thousands of YAML.
func TestReadLargeObject(t *testing.T) {
	const images = 5000
	var list strings.Builder
	for i := range images {
		fmt.Fprintf(&list, "  - {name: related-%d, image: quay.io/large/%d@sha256:%064d}\n", i, i, i)
	}
	csv := "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: large, namespace: operators}\nspec:\n" +
		"  description: " + strings.Repeat("x", 400<<10) + "\n  relatedImages:\n" + list.String()
	asJSON, err := yaml.YAMLToJSON([]byte(csv))
	if err != nil || len(asJSON) < 900<<10 {
		t.Fatalf("%d bytes, %v", len(asJSON), err)
	}
	for name, text := range map[string]string{"YAML": csv, "JSON": string(asJSON)} {
		s, err := ReadFrom(strings.NewReader(text), "f")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := len(imagesOf(t, s)); got != images || len(s.Problems()) > 0 {
			t.Errorf("%s: %d images, want %d; problems %v", name, got, images, s.Problems())
		}
	}
}

// TestImagePolicies: MCO heeds them but where their feature gate is off, wherever in the
// dump that stands.
func TestImagePolicies(t *testing.T) {
	const policies = `apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata: {name: a}
spec: {scopes: [quay.io/a]}
---
apiVersion: config.openshift.io/v1
kind: ImagePolicy
metadata: {name: b, namespace: shop}
spec: {scopes: [quay.io/b]}
---
apiVersion: config.openshift.io/v1
kind: ImagePolicy
metadata: {name: b, namespace: web}
spec: {scopes: [quay.io/b]}
---
`
	gates := func(name, state string) string {
		return "apiVersion: config.openshift.io/v1\nkind: FeatureGate\nmetadata: {name: " + name + "}\nstatus: {featureGates: [{version: 4.20.0, " + state + ": [{name: SigstoreImageVerification}]}]}\n---\n"
	}
	for _, tt := range []struct {
		reason, dump string
		want         int
	}{
		{"nothing is said of the gate", policies, 3},
		{"the gate is on", policies + gates("cluster", "enabled"), 3},
		{"the gate is off", policies + gates("cluster", "disabled"), 0},
		{"the gate is off, said first", gates("cluster", "disabled") + policies, 0},
		{"somebody else's gates", gates("other", "disabled") + policies, 3},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s, err := ReadFrom(strings.NewReader(tt.dump), "f")
			if err != nil {
				t.Fatal(err)
			}
			set, _ := s.Mirrors(t.Context())
			if len(set.Policies) != tt.want {
				t.Errorf("%d policies, want %d", len(set.Policies), tt.want)
			}
		})
	}
}

// TestPodsListed: pods of some namespaces say nothing of those of others, but where Write has written the dump.
func TestPodsListed(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: cart}\nspec: {containers: [{name: app, image: quay.io/shop/cart}]}\n"
	s, err := ReadFrom(strings.NewReader(pod), "dump")
	if err != nil {
		t.Fatal(err)
	}
	known, err := s.Cluster(t.Context())
	if err != nil || !known.PodsListed("shop") || known.PodsListed("other") {
		t.Errorf("want those of shop alone: %v", err)
	}
	if s, err = ReadFrom(strings.NewReader(written(t, s)), "written"); err != nil {
		t.Fatal(err)
	}
	if known, err = s.Cluster(t.Context()); err != nil || !known.PodsListed("other") {
		t.Errorf("want those of all namespaces: %v", err)
	}
}
