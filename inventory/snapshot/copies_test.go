package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	const contradiction = "no resourceVersion tells which is newer"
	now := image{"quay.io/a:2", []string{"Pod a/p c running"}}
	for _, tt := range []struct {
		reason string
		a, b   string
		want   []image // beside the images of podYAML; nil for none
		mirror string  // what the set has, "" for none
		err    string  // what Mirrors and Images say, "" for nothing
	}{
		{reason: "the newer version", a: pod(", resourceVersion: '9'", "quay.io/a:1"), b: pod(", resourceVersion: '10'", "quay.io/a:2"), want: []image{now}},
		{reason: "one version, which a must-gather has in two files", a: pod(", resourceVersion: '9'", "quay.io/a:2"), b: pod(", resourceVersion: '9', managedFields: []", "quay.io/a:2"), want: []image{now}},
		{reason: "only one says", a: pod(", resourceVersion: '9'", "quay.io/a:1"), b: pod("", "quay.io/a:2"), err: contradiction},
		{reason: "the generation is not asked", a: pod(", generation: 1", "quay.io/a:1"), b: pod(", generation: 2", "quay.io/a:2"), err: "Pod a/p is in f.yaml: document 2 too: " + contradiction},
		{reason: "a newer set", a: set(", resourceVersion: '9'", "old.example.com"), b: set(", resourceVersion: '10'", "new.example.com"), mirror: "new.example.com"},
		{reason: "two sets of one name", a: set("", "old.example.com"), b: set("", "new.example.com"), err: "ImageTagMirrorSet s is in f.yaml: document 2 too: " + contradiction},
		{reason: "a newer node", a: node(", resourceVersion: '1'", "amd64"), b: node(", resourceVersion: '2'", "arm64")},
		{reason: "two nodes of one name", a: node("", "amd64"), b: node("", "arm64"), err: "Node n1 is in f.yaml: document 2 too"},
		{reason: "two pull secrets", a: secret("YQ=="), b: secret("Yg=="), err: "Secret openshift-config/pull-secret is in"},
		{
			reason: "one that is kept no more", a: fmt.Sprintf(kept, ", resourceVersion: '1'", 0, 1), b: fmt.Sprintf(kept, ", resourceVersion: '2'", 1, 2) + deployment,
			want: []image{{"quay.io/new:1", []string{"Deployment a/cart app referenced"}}, {"quay.io/old:2", []string{"ReplicaSet a/r app referenced"}}},
		},
	} {
		for order, text := range map[string]string{"": tt.a + "---\n" + tt.b, ", the other way round": tt.b + "---\n" + tt.a} {
			t.Run(tt.reason+order, func(t *testing.T) {
				s, err := ReadFrom(strings.NewReader(podYAML+"---\n"+text), "f.yaml")
				if err != nil {
					t.Fatal(err)
				}
				set, err := s.Mirrors(t.Context())
				if tt.err != "" {
					_, unknown := s.Images(t.Context())
					for _, err := range []error{err, unknown} {
						if err == nil || !strings.Contains(err.Error(), tt.err) || len(s.Problems()) != 1 {
							t.Errorf("%v, want %q; problems %v", err, tt.err, s.Problems())
						}
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				got := slices.DeleteFunc(imagesOf(t, s), func(img image) bool { return strings.HasPrefix(img.Ref, "quay.io/shop/") })
				if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("images (-want +got):\n%s", diff)
				}
				if entries := set.Entries(); tt.mirror != "" && (len(entries) != 1 || entries[0].Mirrors[0] != tt.mirror) {
					t.Errorf("entries %v, want one at %s", entries, tt.mirror)
				}
			})
		}
	}
}

// TestSnapshotBesideObjects: a snapshot has no resourceVersion, and may be older than what lies beside it.
func TestSnapshotBesideObjects(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","resourceVersion":"7"},"spec":{"containers":[{"name":"c","image":"quay.io/a:1"}]}}`
	first, err := ReadFrom(strings.NewReader(pod), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	both, err := ReadFrom(strings.NewReader(written(t, first)+"---\n"+strings.Replace(pod, "quay.io/a:1", "quay.io/a:2", 1)), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const want = "objects that could not be read, or that are there twice, may change the answer: f.yaml: document 1: Pod a/p is in f.yaml: document 2 too: no resourceVersion tells which is newer"
	if _, err := both.Images(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := both.Mirrors(t.Context()); err == nil {
		t.Error("the mirrors are known")
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
				for _, g := range ofImages(s.Gaps()) {
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

// TestNoObjects reads what could be an object, and is not printed as one.
func TestNoObjects(t *testing.T) {
	const (
		table  = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[],"rows":[{"cells":["a"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}}]}`
		status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"%s is forbidden","reason":"Forbidden","details":{"kind":"%s"},"code":403}`
	)
	for _, tt := range []struct{ reason, text, want string }{
		{"a table", table, "a Table has no objects: ask for them with -o yaml or -o json"},
		{"a refusal of pods", fmt.Sprintf(status, "pods", "pods"), "a Status instead of an object: pods is forbidden"},
		{"a list without a kind", `{"items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"x"}]}}]}`, "an object without apiVersion and kind"},
		{"an object without a version", `{"kind":"Pod","metadata":{"name":"a"}}`, "an object without apiVersion and kind"},
		{"a List of objects without a kind", `{"apiVersion":"v1","kind":"List","items":[{"metadata":{"name":"a"}}]}`, "item 1: an object without apiVersion and kind"},
		{"the same, its kind last", `{"apiVersion":"v1","items":[{"metadata":{"name":"a"}}],"kind":"List"}`, "item 1: an object without apiVersion and kind"},
		{"what jq leaves of a list", "[" + liveSet + "]", "objects in a form that oc get -o yaml or -o json does not print"},
		{"an array of lists", `[1, {"apiVersion":"v1","kind":"List","items":[` + liveSet + `]}]`, "objects in a form that oc get"},
		{"a list in a list, as jq -s makes it", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + liveSet + `]}]}`, "item 1: objects in a form that oc get"},
		{"values that could be an object", "metadata: {team: shop}\nreplicas: 3\n", "an object without apiVersion and kind"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
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
			_, unread := s.Mirrors(t.Context())
			_, unknown := s.Images(t.Context())
			for _, err := range []error{unread, unknown} {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
			if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0].Error(), "it.json: document 1: "+tt.want) {
				t.Errorf("problems %v, want the file by name", p)
			}
		})
	}
	for reason, text := range map[string]string{
		"other values":   "replicas: 3\n",
		"an array":       `[1, {"endpoint": "a"}]`,
		"a deletion":     `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`,
		"another Table":  `{"kind":"Table","apiVersion":"example.com/v1","metadata":{"name":"a"}}`,
		"another Status": `{"kind":"Status","apiVersion":"example.com/v1","metadata":{"name":"a"}}`,
	} {
		s, err := ReadFrom(strings.NewReader(podYAML+"---\n"+text), "f.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Mirrors(t.Context()); err != nil || len(ofImages(s.Gaps())) > 0 {
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
