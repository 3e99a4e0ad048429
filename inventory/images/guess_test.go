package images

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestIsGuessable(t *testing.T) {
	for _, tt := range []struct {
		reason, group, kind string
		want                bool
	}{
		{"a kind that is not known", "tekton.dev", "Task", true},
		{"a kind that has rules of its own", "apps", "Deployment", false},
		{"by the name of a former API group too", "extensions", "Deployment", false},
		{"so has this one, but not another of the name", "argoproj.io", "Rollout", false},
		{"another of the name", "example.com", "Rollout", true},
		{"secrets are never read", "", "Secret", false},
		{"nor what is said to hold any", "bitnami.com", "SealedSecret", false},
		{"nor tokens", "example.com", "AccessToken", false},
		{"nor credentials", "cloudcredential.openshift.io", "CredentialsRequest", false},
		{"ConfigMaps are chosen by name", "", "ConfigMap", false},
		{"what changes all the time", "events.k8s.io", "Event", false},
		{"what changes all the time", "coordination.k8s.io", "Lease", false},
		{"a catalogue", "packages.operators.coreos.com", "PackageManifest", false},
	} {
		if got := IsGuessable(schema.GroupKind{Group: tt.group, Kind: tt.kind}); got != tt.want {
			t.Errorf("%s: IsGuessable(%s.%s) = %t", tt.reason, tt.kind, tt.group, got)
		}
	}
}

// TestGuessIsBounded gives objects that a tenant may write to make others wait.
func TestGuessIsBounded(t *testing.T) {
	kind := schema.GroupKind{Group: "example.com", Kind: "Bomb"}
	var many []any
	for i := range 8000 {
		many = append(many, fmt.Sprintf("quay.io/a/b:%d", i))
	}
	var deep any = "quay.io/a/deep:1"
	for range 10_000 {
		deep = map[string]any{"image": deep}
	}
	for _, tt := range []struct {
		reason string
		spec   map[string]any
		want   int
	}{
		{"thousands of images", map[string]any{"images": many}, maxGuesses},
		{"thousands of images in one text", map[string]any{"images": strings.Repeat("quay.io/a/b:1,", 8000)}, 0},
		{"a chain of objects", map[string]any{"image": deep}, 0},
	} {
		h := Guess(kind, &unstructured.Unstructured{Object: map[string]any{"spec": tt.spec}})
		if len(h.References) != tt.want {
			t.Errorf("%s: %d images, want %d", tt.reason, len(h.References), tt.want)
		}
	}
}

// FuzzGuess holds the guesses to their promise: references that a node could parse, and
// marked as guesses, whatever the object.
func FuzzGuess(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"a","image":"quay.io/a/b:1","args":["--x=quay.io/c/d:1"]}]}}`))
	f.Add([]byte(`{"spec":{"images":"a=quay.io/a/b:1\nb=quay.io/c/d:1","repository":"quay.io/a","tag":"1"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o unstructured.Unstructured
		if yaml.Unmarshal(data, &o.Object) != nil {
			return
		}
		for _, r := range Guess(schema.GroupKind{Group: "example.com", Kind: "X"}, &o).References {
			if !isReference(r.Image) || !r.Guessed {
				t.Errorf("%+v", r)
			}
		}
	})
}
