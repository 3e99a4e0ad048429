package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestTwice reads two objects of one name, in either order.
func TestTwice(t *testing.T) {
	pod := func(meta, image string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a%s}\nspec: {containers: [{name: c, image: %s}]}\n", meta, image)
	}
	set := func(meta, mirror string) string {
		return fmt.Sprintf("apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: s%s}\nspec: {imageTagMirrors: [{source: quay.io, mirrors: [%s]}]}\n", meta, mirror)
	}
	node := func(meta, arch string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: n1%s}\nstatus: {nodeInfo: {operatingSystem: linux, architecture: %s}}\n", meta, arch)
	}
	secret := func(data string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: pull-secret, namespace: openshift-config}\ndata: {.dockerconfigjson: %s}\n", data)
	}
	kept := "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {namespace: a, name: r%s, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: cart, uid: '1', controller: true}]}\n" +
		"spec: {replicas: %d, template: {spec: {containers: [{name: app, image: quay.io/old:%d}]}}}\n"
	deployment := "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: a, name: cart}\nspec: {template: {spec: {containers: [{name: app, image: quay.io/new:1}]}}}\n"
	const contradiction = "neither uid, resourceVersion nor generation tells which is newer"
	old, now := image{"quay.io/a:1", []string{"Pod a/p c running"}}, image{"quay.io/a:2", []string{"Pod a/p c running"}}
	for _, tt := range []struct {
		reason string
		a, b   string
		want   []image // beside the images of podYAML; nil for none
		mirror string  // what the set has, "" for none
		err    string  // what Mirrors says, "" for nothing
	}{
		{reason: "the same twice", a: pod("", "quay.io/a:1"), b: pod("", "quay.io/a:1"), want: []image{old}},
		{reason: "the newer version", a: pod(", resourceVersion: '9'", "quay.io/a:1"), b: pod(", resourceVersion: '10'", "quay.io/a:2"), want: []image{now}},
		{reason: "the newer generation", a: pod(", generation: 1", "quay.io/a:1"), b: pod(", generation: 2", "quay.io/a:2"), want: []image{now}},
		{reason: "only one says", a: pod(", resourceVersion: '9'", "quay.io/a:1"), b: pod("", "quay.io/a:2"), want: []image{old, now}},
		{reason: "one version, two contents", a: pod(", resourceVersion: '9'", "quay.io/a:1"), b: pod(", resourceVersion: '9'", "quay.io/a:2"), want: []image{old, now}},
		{reason: "version and generation disagree", a: pod(", resourceVersion: '9', generation: 2", "quay.io/a:1"), b: pod(", resourceVersion: '10', generation: 1", "quay.io/a:2"), want: []image{old, now}},
		{reason: "two objects, of two clusters perhaps", a: pod(", uid: u1, resourceVersion: '9'", "quay.io/a:1"), b: pod(", uid: u2, resourceVersion: '10'", "quay.io/a:2"), want: []image{old, now}},
		{reason: "a newer set", a: set(", generation: 1", "old.example.com"), b: set(", generation: 2", "new.example.com"), mirror: "new.example.com"},
		{reason: "the same set, printed twice", a: set(", resourceVersion: '9'", "m.example.com"), b: liveLike(set("", "m.example.com")), mirror: "m.example.com"},
		{reason: "two sets of one name", a: set("", "old.example.com"), b: set("", "new.example.com"), err: "ImageTagMirrorSet s is in f.yaml: document 2 too, with other contents: " + contradiction},
		{reason: "two sets of one version", a: set(", resourceVersion: '9'", "old.example.com"), b: set(", resourceVersion: '9'", "new.example.com"), err: contradiction},
		{reason: "a label may exempt", a: set(", labels: {exempt: 'yes'}", "m.example.com"), b: set("", "m.example.com"), err: contradiction},
		{reason: "two nodes of one name", a: node("", "amd64"), b: node("", "arm64"), err: "Node n1 is in f.yaml: document 2 too"},
		{reason: "a newer node", a: node(", resourceVersion: '1'", "amd64"), b: node(", resourceVersion: '2'", "arm64")},
		{reason: "one version of a node, printed in two ways", a: node(", uid: u1, resourceVersion: '1'", "amd64"), b: node(", uid: u1, resourceVersion: '1'", "amd64, kernelVersion: ''")},
		{reason: "two pull secrets", a: secret("YQ=="), b: secret("Yg=="), err: "Secret openshift-config/pull-secret is in"},
		{
			reason: "one that is kept no more", a: fmt.Sprintf(kept, ", generation: 1", 0, 1), b: fmt.Sprintf(kept, ", generation: 2", 1, 2) + deployment,
			want: []image{{"quay.io/new:1", []string{"Deployment a/cart app referenced"}}, {"quay.io/old:2", []string{"ReplicaSet a/r app referenced"}}},
		},
	} {
		for order, text := range map[string]string{"": tt.a + "---\n" + tt.b, ", the other way round": tt.b + "---\n" + tt.a} {
			t.Run(tt.reason+order, func(t *testing.T) {
				s, err := ReadFrom(strings.NewReader(podYAML+"---\n"+text), "f.yaml")
				if err != nil {
					t.Fatal(err)
				}
				var got []image
				for _, img := range imagesOf(t, s) {
					if !strings.HasPrefix(img.Ref, "quay.io/shop/") {
						got = append(got, img)
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("images (-want +got):\n%s", diff)
				}
				set, err := s.Mirrors(t.Context())
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || len(s.Problems()) != 1) {
					t.Errorf("mirrors: %v, want %q; problems %v", err, tt.err, s.Problems())
				}
				if entries := set.Entries(); tt.mirror != "" && (len(entries) != 1 || entries[0].Mirrors[0] != tt.mirror) {
					t.Errorf("entries %v, want one at %s", entries, tt.mirror)
				}
			})
		}
	}
}

// liveLike adds what only an API server writes.
func liveLike(text string) string {
	return strings.Replace(text, "metadata: {", "metadata: {resourceVersion: '12', uid: u, managedFields: [{manager: x}], ", 1)
}

// TestSnapshotBesideObjects: a snapshot and objects of the same cluster agree, and none of them
// hides what the other has.
func TestSnapshotBesideObjects(t *testing.T) {
	const cluster = `
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: s, resourceVersion: "5", uid: u1, annotations: {a: b}}
spec: {imageTagMirrors: [{source: quay.io/a, mirrors: [m.example.com/a]}]}
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster, generation: 2}
spec: {registrySources: {blockedRegistries: [docker.io]}, externalRegistryHostnames: [a.example.com]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: a, resourceVersion: "7"}
spec: {containers: [{name: c, image: "quay.io/a:1"}]}
`
	read := func(text string) *Snapshot {
		s, err := ReadFrom(strings.NewReader(text), "f.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Mirrors(t.Context()); err != nil {
			t.Error(err)
		}
		return s
	}
	var written strings.Builder
	first := read(cluster)
	if err := Write(t.Context(), &written, first, first.TrustSettings()); err != nil {
		t.Fatal(err)
	}
	both := read(strings.Replace(cluster, "quay.io/a:1", "quay.io/a:2", 1) + "---\n" + written.String())
	want := []image{{"quay.io/a:1", []string{"Pod a/p c running"}}, {"quay.io/a:2", []string{"Pod a/p c running"}}}
	if diff := cmp.Diff(want, imagesOf(t, both)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCut reads lists that say of themselves that they are not whole.
func TestCut(t *testing.T) {
	const more = `{"continue": "x", "remainingItemCount": 3}`
	for _, tt := range []struct {
		reason, kind, apiVersion, meta string
		items                          string
		err                            string // what Mirrors says
		gap                            string // the Kind of the Gap, "-" for none
		unknown                        string // what is missing of a rollout
	}{
		{"mirror sets", "ImageTagMirrorSetList", "config.openshift.io/v1", more, liveSet, "a list without its other 3 items (metadata.remainingItemCount): only the first page was written", "-", ""},
		{"anything", "List", "v1", `{"continue": "x"}`, liveSet, "a list that goes on (metadata.continue): only the first page was written", "-", "pods"},
		{"pods", "PodList", "v1", more, "", "", "Pod", "pods"},
		{"Deployments of a former group", "DeploymentList", "extensions/v1beta1", more, "", "", "Deployment", ""},
		{"a kind that is not known", "WidgetList", "example.com/v1", more, "", "", "Widget", ""},
		{"nodes", "NodeList", "v1", more, "", "a list without its other 3 items", "-", "nodes"},
		{"MachineConfigs", "MachineConfigList", "machineconfiguration.openshift.io/v1", more, "", "a list without its other 3 items", "-", ""},
		{"pools", "MachineConfigPoolList", "machineconfiguration.openshift.io/v1", more, "", "", "-", "machineconfigpools"},
		{"the last page", "PodList", "v1", `{"resourceVersion": "7", "continue": "", "remainingItemCount": 0}`, "", "", "-", ""},
		{"events", "EventList", "v1", more, "", "", "-", ""},
	} {
		text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": %s, "items": [%s]}`, tt.apiVersion, tt.kind, tt.meta, tt.items)
		yaml := fmt.Sprintf("apiVersion: %s\nitems:\n- %s\nkind: %s\nmetadata: %s\n", tt.apiVersion, tt.items, tt.kind, tt.meta)
		if tt.items == "" {
			yaml = fmt.Sprintf("apiVersion: %s\nitems: []\nkind: %s\nmetadata: %s\n", tt.apiVersion, tt.kind, tt.meta)
		}
		for form, text := range map[string]string{"JSON": text, "YAML": yaml} {
			t.Run(tt.reason+" in "+form, func(t *testing.T) {
				s, err := ReadFrom(strings.NewReader(podYAML+"---\n"+text), "f.yaml")
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.Mirrors(t.Context())
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("mirrors: %v, want %q", err, tt.err)
				}
				got := "-"
				for _, g := range s.Gaps() {
					got = g.Kind
				}
				if got != tt.gap {
					t.Errorf("gaps %v, want one of %q", s.Gaps(), tt.gap)
				}
				if unknown := " " + strings.Join(s.Rollout().Unknown, " ") + " "; tt.unknown != "" && !strings.Contains(unknown, " "+tt.unknown+" ") {
					t.Errorf("unknown:%s, want %s", unknown, tt.unknown)
				}
			})
		}
	}
}

// TestNoObjects reads what tools write where objects were meant to be: alone, and as one of many
// files.
func TestNoObjects(t *testing.T) {
	const (
		table  = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[],"rows":[{"cells":["a"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}}]}`
		status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"%s is forbidden","reason":"Forbidden","details":{"kind":"%s"},"code":403}`
	)
	for _, tt := range []struct {
		reason, text, want string
		among              bool // whether one of many leaves the configuration in doubt too
	}{
		{"a table", table, "a Table has no objects: ask for them with -o yaml or -o json", false},
		{"a refusal of pods", fmt.Sprintf(status, "pods", "pods"), "a Status instead of an object: pods is forbidden", false},
		{"a refusal of mirror sets", fmt.Sprintf(status, "imagetagmirrorsets.config.openshift.io", "imagetagmirrorsets"), "a Status instead of an object: imagetagmirrorsets.config.openshift.io is forbidden", true},
		{"a list without a kind", `{"items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}}]}`, "an object without a kind", false},
		{"what jq leaves of a list", `[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}}]`, "an object without a kind", false},
		{"mirror sets without a kind", `{"items":[{"metadata":{"name":"a"},"spec":{"imageTagMirrors":[{"source":"quay.io"}]}}]}`, "an object without a kind", true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			alone, err := ReadFrom(strings.NewReader(podYAML+"---\n"+tt.text), "f.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := alone.Mirrors(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("alone: %v, want %q", err, tt.want)
			}
			folder := t.TempDir()
			for name, text := range map[string]string{"pods.yaml": podYAML, "it.json": tt.text} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Read(folder)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Mirrors(t.Context())
			gaps := s.Gaps()
			if tt.among && err == nil || !tt.among && (err != nil || len(gaps) != 1 || !strings.Contains(gaps[0].Detail, tt.want)) {
				t.Errorf("among others: %v, gaps %v", err, gaps)
			}
			if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0].Error(), "it.json") {
				t.Errorf("problems %v, want the file by name", p)
			}
		})
	}
	for reason, text := range map[string]string{
		"Helm's values":  "metadata: {team: shop}\nreplicas: 3\n",
		"a deletion":     `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`,
		"another Table":  `{"kind":"Table","apiVersion":"example.com/v1","metadata":{"name":"a"}}`,
		"another Status": `{"kind":"Status","apiVersion":"example.com/v1","metadata":{"name":"a"}}`,
	} {
		s, err := ReadFrom(strings.NewReader(podYAML+"---\n"+text), "f.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Mirrors(t.Context()); err != nil || len(s.Gaps()) > 0 {
			t.Errorf("%s: %v, gaps %v", reason, err, s.Gaps())
		}
	}
}

// TestMirrorSetsAlone: where nothing uses an image there is nothing to judge, unless a snapshot
// says that it is so.
func TestMirrorSetsAlone(t *testing.T) {
	read := func(text string) (policy.Images, error) {
		s, err := ReadFrom(strings.NewReader(text), "f.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Mirrors(t.Context()); err != nil {
			t.Error(err) // explain and render need no more
		}
		return s.Images(t.Context())
	}
	const want = "the dump has no object that names an image: without consumers of images there is no answer"
	if _, err := read(liveSet); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("mirror sets alone: %v, want %q", err, want)
	}
	if images, err := read(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"mirrorset-guard.io/v1alpha1","kind":"Lacking","resources":[]},` + liveSet + `]}`); err != nil || images.Len() != 0 {
		t.Errorf("a snapshot of an empty cluster: %v", err)
	}
	if images, err := read(podYAML + "---\n" + liveSet); err != nil || images.Len() == 0 {
		t.Errorf("with a pod: %v", err)
	}
}
