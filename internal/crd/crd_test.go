package crd

import (
	"bytes"
	"flag"
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
