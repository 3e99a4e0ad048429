package mirrors

import (
	"reflect"
	"strings"
	"testing"

	"github.com/containers/image/v5/docker/reference"
	configv1 "github.com/openshift/api/config/v1"
)

func TestParsePlain(t *testing.T) {
	tests := []struct {
		image, want string // the repository; "": not plain
	}{
		{"quay.io/team/app:v1.2.3", "quay.io/team/app"},
		{"quay.io/team/app", "quay.io/team/app"},
		{"reg.local:5000/a@" + digestA, "reg.local:5000/a"},
		{"quay.io/team/app:v1@" + digestA, ""},
		{"docker.io/library/nginx:1", ""},
		{"nginx", ""},
		{"localhost:5000/a:1", ""},
		{"quay.io/Team/app:1", ""},
		{"quay.io/a__b:1", ""},
		{"quay.io/a//b:1", ""},
		{"quay.io/a:", ""},
		{"quay.io/a@sha256:short", ""},
		{"quay.io:/a", ""},
		{"quay.io/" + strings.Repeat("a", 250), ""},
	}
	for _, tt := range tests {
		if got, _ := parsePlain(tt.image); got.name != tt.want {
			t.Errorf("parsePlain(%q) = %q, want %q", tt.image, got.name, tt.want)
		}
	}
}

// FuzzParsePlain: what is plain parses, to that name and version.
func FuzzParsePlain(f *testing.F) {
	for _, seed := range []string{"quay.io/team/app:v1.2.3", "reg.local:5000/a@" + digestA, "a.b:1/c-d_e.f:x", "quay.io/x:1@" + digestA, "1.2.3.4/5/6:7"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, image string) {
		plain, ok := parsePlain(image)
		if !ok {
			return
		}
		ref, err := reference.ParseDockerRef(image)
		if err != nil {
			t.Fatalf("%q is plain, but: %v", image, err)
		}
		if ref.Name() != plain.name || ref.String() != plain.full {
			t.Errorf("%q: plain %+v, want %q", image, plain, ref)
		}
		if _, digested := ref.(reference.Canonical); digested != plain.isDigested() {
			t.Errorf("%q: digested %v, want %v", image, plain.isDigested(), digested)
		}
	})
}

// FuzzPlainRoute: the route of a plain reference is the one that containers/image
// gives, whatever the mirrors look like.
func FuzzPlainRoute(f *testing.F) {
	f.Add("quay.io", "mirror.example.com:5000/a", "quay.io/blocked", "quay.io/team/app:v1", "quay.io/team")
	f.Add("quay.io/team", "localhost/x", "mirror.example.com", "quay.io/team/app@"+digestA, "quay.io/team/app@"+digestA)
	f.Add("quay.io/team/app", "Mirror.example.com/UP", "quay.io", "quay.io/team/app", "*.io")
	f.Add("reg.local", "m.example.com//", "reg.local:5000/a", "reg.local:5000/a:1", "reg.local:5000")
	f.Fuzz(func(t *testing.T, source, mirror, blocked, image, scope string) {
		set := Set{Objects: []Object{
			itms("tags", source, "", configv1.ImageMirror(mirror)),
			idms("digests", source, configv1.NeverContactSource, configv1.ImageMirror(mirror+"/d")),
		}}
		set.Registries.BlockedRegistries = []string{blocked}
		set = put(set, clusterPolicy("signed", configv1.ImageScope(scope)), imagePolicy("shop", "own", configv1.ImageScope(source)))
		table, err := ResolveUnchecked(set)
		if err != nil {
			return
		}
		ref, ok := parsePlain(image)
		if !ok {
			return
		}
		got, ok := table.plainRoute(ref, "shop")
		if !ok {
			return
		}
		want, err := table.parsedRoute(image, "shop")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", image, got, want)
		}
	})
}
