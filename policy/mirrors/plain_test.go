package mirrors

import (
	"strings"
	"testing"

	"github.com/containers/image/v5/docker/reference"
)

func TestPlainName(t *testing.T) {
	tests := []struct {
		image, want string // "": not plain
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
		if got, _ := plainName(tt.image); got != tt.want {
			t.Errorf("plainName(%q) = %q, want %q", tt.image, got, tt.want)
		}
	}
}

// FuzzPlainName: what is plain parses, to that name.
func FuzzPlainName(f *testing.F) {
	for _, seed := range []string{"quay.io/team/app:v1.2.3", "reg.local:5000/a@" + digestA, "a.b:1/c-d_e.f:x", "quay.io/x:1@" + digestA, "1.2.3.4/5/6:7"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, image string) {
		name, ok := plainName(image)
		if !ok {
			return
		}
		ref, err := reference.ParseDockerRef(image)
		if err != nil {
			t.Fatalf("%q is plain, but: %v", image, err)
		}
		if ref.Name() != name {
			t.Errorf("%q: plain name %q, want %q", image, name, ref.Name())
		}
	})
}
