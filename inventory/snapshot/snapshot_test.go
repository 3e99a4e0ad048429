package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
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
	var out []string
	for _, e := range set.Entries() {
		out = append(out, mirrors.NameOf(e.Object)+" "+e.Source)
	}
	return out
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

func TestReadFrom(t *testing.T) {
	tests := []struct {
		reason   string
		text     string
		images   []image
		mirrors  []string
		problems []string
		notes    []string
	}{
		{
			reason: "one object",
			text:   podYAML,
			images: podImages,
		},
		{
			reason: "several documents, some of them empty, the last without a separator",
			text: "# a comment\n---\n---\n" + podYAML + `---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: apps}
spec:
  imageTagMirrors: [{source: quay.io/shop, mirrors: [mirror.example.com/shop]}]`,
			images:  podImages,
			mirrors: []string{"ImageTagMirrorSet apps quay.io/shop"},
		},
		{
			reason: "what 'oc get -o json' writes for several kinds",
			text: `{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [
				{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report", "namespace": "shop"},
				 "spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "run", "image": "quay.io/shop/report"}]}}}}}},
				{"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "release"},
				 "spec": {"imageDigestMirrors": [{"source": "quay.io", "mirrors": ["m.example.com"]}]}}]}`,
			images:  []image{{"quay.io/shop/report", []string{"CronJob shop/report run referenced"}}},
			mirrors: []string{"ImageDigestMirrorSet release quay.io"},
		},
		{
			reason: "the items of a typed list, as the API itself writes it, do not say what they are",
			text: `{"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [{"metadata": {"name": "app", "namespace": "shop"},
				"spec": {"replicas": 0, "template": {"spec": {"containers": [{"name": "app", "image": "quay.io/shop/app:2"}]}}}}]}`,
			images: []image{{"quay.io/shop/app:2", []string{"Deployment shop/app app referenced"}}},
		},
		{
			reason: "JSON documents one after another",
			text: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}
				{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}}`,
			images: []image{{"x", []string{"Pod a/p c running"}}},
		},
		{
			reason: "an empty list is an answer",
			text:   podYAML + "---\n" + `{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": []}` + "\n",
			images: podImages,
		},
		{
			reason: "kinds that hold no images are counted",
			text: podYAML + `---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
{apiVersion: v1, kind: Secret, metadata: {name: c, namespace: shop}}
`,
			images: podImages,
			notes:  []string{"skipped 3 objects of 2 kinds that hold no images: ConfigMap, Secret"},
		},
		{
			reason: "one object is not objects",
			text:   podYAML + "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
			images: podImages,
			notes:  []string{"skipped 1 object of 1 kind that holds no images: ConfigMap"},
		},
		{
			reason: "a reference that no node could parse is in the inventory",
			text:   strings.Replace(podYAML, "quay.io/shop/app:1", "quay.io/Shop:1:2", 1),
			images: []image{{"quay.io/Shop:1:2", []string{"Pod shop/app-0 app running sha256:e3b0"}}},
		},
		{
			reason:   "a document in the middle that breaks off does not take the next one with it",
			text:     "replicas: {a: 1, b\n---\n" + podYAML,
			images:   podImages,
			problems: []string{"f.yaml: document 1: yaml: line 1: did not find expected ',' or '}'"},
			notes:    []string{"not read: f.yaml: document 1: yaml: line 1: did not find expected ',' or '}'"},
		},
		{
			reason: "the items of a typed list in YAML come before its kind",
			text: "apiVersion: v1\nitems:\n# first\n- metadata:\n    name: p\n    namespace: a\n  spec:\n    containers:\n    - name: c\n      image: x\n" +
				"-\n  metadata: {name: q, namespace: a}\n  spec:\n    containers: [{name: c, image: x}]\nkind: PodList\n--- # next\n" + podYAML,
			images: append(podImages, image{"x", []string{"Pod a/p c running", "Pod a/q c running"}}),
		},
		{
			reason: "items may be indented, and a text in one may look like anything",
			text: "kind: List\napiVersion: v1\nitems:\n\n  - kind: Pod\n    apiVersion: v1\n    metadata:\n      name: p\n      annotations:\n        a: |\n" +
				"          items:\n          - kind: Pod\n          ---\n    spec:\n      containers:\n      - {name: c, image: x}\nmetadata: {}\n",
			images: []image{{"x", []string{"Pod /p c running"}}},
		},
		{
			reason: "items on one line, and none at all",
			text:   "apiVersion: v1\nkind: List\nitems: []\n---\napiVersion: v1\nkind: List\nitems:\nmetadata: {}\n---\napiVersion: v1\nkind: List\nitems: [{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {containers: [{image: x}]}}]\n",
			images: []image{{"x", []string{"Pod /p  running"}}},
		},
		{
			reason: "a field of the wrong type spoils its object, not the list",
			text: `{"apiVersion":"v1","kind":"List","items":[
				{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad"},"spec":{"containers":"none"}},
				{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}}]}`,
			images:   []image{{"x", []string{"Pod a/p c running"}}},
			problems: []string{"f.yaml: document 1: item 1: reading Pod: json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container"},
			notes:    []string{"not read: f.yaml: document 1: item 1: reading Pod: json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container"},
		},
		{
			reason: "what has no field of an object is none",
			text:   podYAML + "---\nreplicas: 3\n",
			images: podImages,
			notes:  []string{"skipped 1 object of 1 kind that holds no images: (no object)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			s, err := ReadFrom(strings.NewReader(tt.text), "f.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var problems []string
			for _, p := range s.Problems() {
				problems = append(problems, p.Error())
			}
			for what, diff := range map[string]string{
				"images":   cmp.Diff(tt.images, imagesOf(t, s)),
				"mirrors":  cmp.Diff(tt.mirrors, mirrorsOf(t, s)),
				"problems": cmp.Diff(tt.problems, problems),
				"notes":    cmp.Diff(tt.notes, s.Notes()),
			} {
				if diff != "" {
					t.Errorf("%s: -want +got:\n%s", what, diff)
				}
			}
		})
	}
}

// What an object says may depend on others, before it in the dump or after it.
func TestReadConditions(t *testing.T) {
	const dump = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: cart}
spec:
  replicas: 0
  template: {spec: {serviceAccountName: cart, containers: [{name: app, image: cart}, {name: proxy, image: "cart:2"}, {name: log, image: "log:1"}]}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: shop, name: cart}
imagePullSecrets: [{name: cart-dockercfg-x7k2p}, {name: quay}]
---
apiVersion: image.openshift.io/v1
kind: ImageStream
metadata: {namespace: shop, name: cart}
spec: {lookupPolicy: {local: true}}
status:
  dockerImageRepository: registry.svc:5000/shop/cart
  tags: [{tag: latest, items: [{dockerImageReference: "quay.io/shop/cart:9", image: "sha256:9", created: "2026-01-01T00:00:00Z", generation: 1}]}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: shop, name: default, annotations: {openshift.io/internal-registry-pull-secret-ref: default-dockercfg-x7k2p}}
imagePullSecrets: [{name: default-dockercfg-x7k2p}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: shop, name: db}
spec: {template: {spec: {containers: [{name: app, image: "quay.io/db:1"}]}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: shop, name: older}
imagePullSecrets: [{name: older-dockercfg-x7k2p}]
---
apiVersion: v1
kind: Secret
type: kubernetes.io/dockercfg
metadata: {namespace: shop, name: older-dockercfg-x7k2p, annotations: {kubernetes.io/service-account.name: older, openshift.io/token-secret.name: older-token-x7k2p}}
data: {}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: older-0}
spec: {serviceAccountName: older, imagePullSecrets: [{name: older-dockercfg-x7k2p}], containers: [{name: app, image: "quay.io/older:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: forged-0}
spec: {serviceAccountName: forged, imagePullSecrets: [{name: forged-dockercfg-x7k2p}], containers: [{name: app, image: "quay.io/forged:1"}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: shop, name: forged}
imagePullSecrets: [{name: forged-dockercfg-x7k2p}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {namespace: other, name: report}
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: app, image: "quay.io/report:1"}]}}}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {namespace: shop, name: cart-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: cart, uid: "1", controller: true}]}
spec: {replicas: 0, template: {spec: {containers: [{name: app, image: "quay.io/old:1"}]}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {namespace: shop, name: mystery-1, ownerReferences: [{apiVersion: example.com/v1, kind: Mystery, name: mystery, uid: "1", controller: true}]}
spec: {replicas: 0, template: {spec: {containers: [{name: app, image: "quay.io/mystery:1"}]}}}
`
	want := []string{
		"log:1 Deployment shop/cart log referenced own pull secret",
		"quay.io/db:1 StatefulSet shop/db app referenced",
		"quay.io/forged:1 Pod shop/forged-0 app running pull secret unknown", // nothing says that it is OpenShift's
		"quay.io/mystery:1 ReplicaSet shop/mystery-1 app referenced",
		"quay.io/old:1 ReplicaSet shop/cart-1 app history",
		"quay.io/older:1 Pod shop/older-0 app running",
		"quay.io/report:1 CronJob other/report app referenced pull secret unknown", // its account is not in the dump
		"quay.io/shop/cart:9 ImageStream shop/cart status.tags[latest].items[0].dockerImageReference history",
		"quay.io/shop/cart@sha256:9 Deployment shop/cart app referenced own pull secret",
		"registry.svc:5000/shop/cart:2 Deployment shop/cart proxy referenced own pull secret",
	}
	lines := func(s *Snapshot) []string {
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
				lines = append(lines, line)
			}
		}
		return lines
	}
	documents := strings.Split(dump, "---")
	for range documents {
		documents = append(documents[1:], documents[0])
		s, err := ReadFrom(strings.NewReader(strings.Join(documents, "---")), "dump")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, lines(s)); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		again, err := ReadFrom(strings.NewReader(written(t, s)), "written")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, lines(again)); diff != "" {
			t.Fatalf("written and read again: -want +got:\n%s", diff)
		}
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
