package crd

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "copy the definitions from the module openshift/api")

// TestManifests: the definitions are exactly those of the module version in go.mod.
func TestManifests(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for gvk, name := range files {
		folder := filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(filepath.Dir(name)), "zz_generated.crd-manifests")
		found, err := filepath.Glob(filepath.Join(folder, "*_"+filepath.Base(name)+"*.crd.yaml"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %q, %v: one definition wanted; of several, take the Default one", gvk.Kind, found, err)
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.FromSlash(embedded(name))
		if *update {
			if err := os.WriteFile(copied, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(copied); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is not what openshift/api has: run this test with -update (%v)", copied, err)
		}
		want = append(want, copied)
	}
	got, err := filepath.Glob(filepath.Join("manifests", "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
}

// TestDefinitions: each definition can be prepared.
func TestDefinitions(t *testing.T) {
	for gvk := range files {
		if _, err := definitionOf(gvk); err != nil {
			t.Error(err)
		}
	}
}

func validateYAML(t *testing.T, text string) []string {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(data, &meta); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, err := range Validate(meta.GroupVersionKind(), data, nil) {
		got = append(got, err.Error())
	}
	slices.Sort(got)
	return got
}

func TestValidate(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, validateYAML(t, tc.object)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzValidate(f *testing.F) {
	for _, tc := range cases {
		f.Add(tc.object)
	}
	for _, text := range []string{"null", "{}", "metadata: null", "metadata: 5", "spec: []"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return
		}
		for gvk := range files {
			Validate(gvk, data, nil) // must not panic
		}
	})
}

// TestWords: the API server takes a name exactly if no clause says what is wrong with it.
func TestWords(t *testing.T) {
	clauses := map[string]string{ // by name of a source
		"quay.io": "", "quay.io/app": "", "quay.io:5000": "", "quay.io:5000/app_a.b": "", "*.redhat.io": "", "Quay.io/app": "",
		"": "is empty", "<registry.example.com:8443>/oadp": "placeholder", "${REGISTRY}/app": "placeholder", "{{ .registry }}/app": "placeholder",
		"%REGISTRY%/app": "placeholder", "quay.io/a b": "space", "https://quay.io/app": "no scheme", "docker://quay.io": "no scheme", "quay.io/app/": "end with a slash",
		"quay.io//app": "is empty", "/app": "is empty", "quay.io/App": "lower case", "quay.io/app:latest": "a tag", "quay.io:5000/app:v1": "a tag", "quay.io:latest": "a tag",
		"quay.io/app@sha256:0": "a digest", "*.redhat.io/x": "has no path", "quay.io/*": "wildcard", "quay.*.io": "wildcard",
	}
	for name, clause := range clauses {
		errs := validateYAML(t, idms(fmt.Sprintf("imageDigestMirrors: [{source: %q, mirrors: [m.example.com]}]", name)))
		if clause == "" && len(errs) > 0 || clause != "" && (len(errs) == 0 || !strings.Contains(errs[0], clause)) {
			t.Errorf("%q: got %q, want %q", name, errs, clause)
		}
	}
}
