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

// TestUnread: what could not be read is a mirror object, may name images, or neither.
func TestUnread(t *testing.T) {
	const none = ""
	for _, tt := range []struct {
		reason, text string
		mirrors      string // why the configuration in force is not known, after the beginning that all have
		gaps         []policy.Gap
	}{
		{"all is well", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`, none, nil},
		{
			"a mirror set with a number for a list",
			"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a}\nspec: {imageTagMirrors: 5}\n",
			"f.yaml: document 2: reading ImageTagMirrorSet: json: cannot unmarshal number into Go struct field ImageTagMirrorSetSpec.spec.imageTagMirrors of type []v1.ImageTagMirrors", nil,
		},
		{
			"a mirror set of a version that there is not",
			"apiVersion: config.openshift.io/v1alpha1\nkind: ImageTagMirrorSet\nmetadata: {name: a}\nspec: {}\n",
			"f.yaml: document 2: ImageTagMirrorSet is not of config.openshift.io/v1alpha1 but of config.openshift.io/v1", nil,
		},
		{
			"fields in the wrong case, which the API server does not know",
			"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a}\nspec: {ImageTagMirrors: [{source: quay.io}]}\n",
			"f.yaml: document 2: reading ImageTagMirrorSet: a field is written in the wrong case", nil,
		},
		{
			"a kind in the wrong case",
			"apiVersion: config.openshift.io/v1\nKind: ImageTagMirrorSet\nmetadata: {name: a}\nspec: {}\n",
			"f.yaml: document 2: an object without apiVersion and kind: is the end missing?", nil,
		},
		{
			"broken YAML that speaks of mirrors",
			"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: a\nspec: {}\n",
			"f.yaml: document 2: yaml: line 4: did not find expected ',' or '}'", nil,
		},
		{
			"a mirror set without a name, which the next would replace",
			"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {}\nspec: {}\n",
			"f.yaml: document 2: ImageTagMirrorSet without a name", nil,
		},
		{
			"a mirror set behind JSON in a document of YAML",
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}` + "\n" + liveSet + "\n",
			"f.yaml: document 2: more follows the first value: a line with --- has to stand between documents", nil,
		},
		{
			"items in the wrong case",
			`{"apiVersion":"v1","kind":"List","Items":[` + liveSet + "]}\n",
			"f.yaml: document 2: a list without items", nil,
		},
		{"a list of nothing", `{"apiVersion":"v1","kind":"PodList","items":null}` + "\n", none, nil},
		{"a stranger whose kind ends as that of a list", `{"apiVersion":"example.com/v1","kind":"AllowList","metadata":{"name":"a"}}` + "\n", none, nil},
		{
			"a pod with a string for containers",
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: none}\n",
			none,
			[]policy.Gap{{Source: "f.yaml: document 2", Kind: "Pod", Detail: "reading Pod: json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container", Unread: true}},
		},
		{
			"broken YAML of an object",
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a\nspec: {}\n",
			"f.yaml: document 2: yaml: line 4: did not find expected ',' or '}'", nil,
		},
		{"broken YAML of something else", "a: [\n", none, nil},
		{
			"a node that cannot be read may be of a platform that no other is of",
			"apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: 5\n",
			"f.yaml: document 2: reading Node: json: cannot unmarshal number into Go struct field Node.status of type v1.NodeStatus", nil,
		},
		{"a namespace that cannot be read names no image", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\nstatus: 5\n", none, nil},
		{
			"a typed list that is cut off",
			"apiVersion: config.openshift.io/v1\nitems:\n- metadata: {name: a}\n  spec: {imageTagMirrors: []}\n",
			"f.yaml: document 2: an object without apiVersion and kind: is the end missing?", nil,
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s, err := ReadFrom(strings.NewReader(podYAML+"---\n"+tt.text), "f.yaml")
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Mirrors(t.Context())
			got := none
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "objects that could not be read, or that are there twice, may change the answer: ")
			}
			if diff := cmp.Diff(tt.mirrors, got); diff != "" {
				t.Errorf("mirrors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.gaps, ofImages(s.Gaps())); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

// ofImages are those of gaps that hide images: these dumps have no nodes either.
func ofImages(gaps []policy.Gap) (of []policy.Gap) {
	for _, g := range gaps {
		if !g.IsOfNodes() {
			of = append(of, g)
		}
	}
	return of
}

const liveSet = `{"apiVersion":"config.openshift.io/v1","kind":"ImageTagMirrorSet","metadata":{"name":"live"},"spec":{"imageTagMirrors":[{"source":"quay.io/a","mirrors":["m.example.com/a"]}]}}`

// TestNoObjectIsLost: whatever a dump is wrapped in, the mirror set in it is read.
func TestNoObjectIsLost(t *testing.T) {
	list := `{"apiVersion":"v1","kind":"List","items":[` + liveSet + `]}`
	for reason, text := range map[string]string{
		"a stream with a byte order mark":     "\ufeff" + `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}` + "\n" + liveSet,
		"JSON, and more of it after a marker": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}` + "\n---\n" + list,
		"JSON, and YAML after a marker":       `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}` + "\n\n--- # more\napiVersion: v1\nkind: List\nitems:\n- " + liveSet + "\n",
		"two objects as JSON, then markers":   `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}` + "\n{}\n---\n{}\n---\n" + liveSet,
		"YAML with a byte order mark":         "\ufeffapiVersion: v1\nkind: List\nitems:\n- " + liveSet + "\n",
	} {
		t.Run(reason, func(t *testing.T) {
			s, err := ReadFrom(strings.NewReader(text), "f.yaml")
			if err != nil {
				t.Fatal(err)
			}
			set, err := s.Mirrors(t.Context())
			if err != nil || len(set.Objects) != 1 {
				t.Errorf("%d mirror sets, %v; problems %v", len(set.Objects), err, s.Problems())
			}
		})
	}
}

// TestNoWorkloads: what mirrors need is read without pods, and whatever is wrong with the text is noted all the same.
func TestNoWorkloads(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","resourceVersion":"2"},"spec":{"containers":[{"name":"c","image":"x"%s}]}}`
	whole, broken := fmt.Sprintf(pod, ""), fmt.Sprintf(pod, " 7")
	for _, tt := range []struct {
		reason, items string
		lost          bool
	}{
		{"pods", whole, false},
		{"JSON that is broken", broken, true},
		{"the same in an older copy", whole + "," + strings.Replace(broken, `"2"`, `"1"`, 1), true},
		{"the same in a kind of no use", strings.Replace(broken, "Pod", "Event", 1), true},
		{"the same in an item that waits", `{"metadata":{"name":7 7}}`, true},
	} {
		text := `{"apiVersion":"v1","items":[` + liveSet + "," + tt.items + `],"kind":"List"}`
		for _, o := range []Options{{}, {NoWorkloads: true}} {
			s, err := o.Stream(strings.NewReader(text), "f.json")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Mirrors(t.Context()); (err != nil) != tt.lost || tt.lost && !strings.Contains(err.Error(), "f.json: document 1: item ") {
				t.Errorf("%s, %+v: %v", tt.reason, o, err)
			}
			if n := s.index.Objects(); !tt.lost && (n == 0) != o.NoWorkloads {
				t.Errorf("%s, %+v: %d objects name images", tt.reason, o, n)
			}
		}
	}
	yaml := "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {this is not even YAML\n- " + liveSet + "\nkind: List\n"
	s, err := Options{NoWorkloads: true}.Stream(strings.NewReader(yaml), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if set, err := s.Mirrors(t.Context()); err != nil || len(set.Objects) != 1 || s.skippedNote() != "" {
		t.Errorf("%d mirror sets, %v, %s", len(set.Objects), err, s.skippedNote())
	}
}

// TestLinkToAFolder: a dump is read by any path that leads to it, and whatever program
// named its files.
func TestLinkToAFolder(t *testing.T) {
	folder, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(filepath.Join(folder, "SETS.JSON"), []byte(liveSet), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	s, err := Read(link)
	if err != nil {
		t.Fatal(err)
	}
	if set, err := s.Mirrors(t.Context()); err != nil || len(set.Objects) != 1 {
		t.Errorf("%d mirror sets, %v", len(set.Objects), err)
	}
}
