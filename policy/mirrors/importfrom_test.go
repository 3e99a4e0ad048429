package mirrors

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestRefusesImport: what openshift-apiserver allows by host and port.
func TestRefusesImport(t *testing.T) {
	for _, tt := range []struct {
		domain   string
		insecure bool
		ref      string
		refused  bool
	}{
		{"", false, "quay.io/a:1", false},
		{"quay.io", false, "quay.io/a:1", false},
		{"quay.io", true, "quay.io/a:1", true}, // port 80
		{"quay.io:443", false, "quay.io/a:1", false},
		{"quay.io", false, "quay.io:5000/a:1", true},
		{"quay.io:*", false, "quay.io:5000/a:1", false},
		{"*.example.com", false, "m.example.com/a:1", false},
		{"*.example.com", false, "quay.io/a:1", true},
		{"docker.io", false, "nginx", false},
		{"registry-1.docker.io", false, "docker.io/library/nginx", false},
		{"quay.io", false, "image-registry.openshift-image-registry.svc:5000/a/b:1", false},
		{"quay.io", false, "registry.redhat.io/a@sha256:" + zeros, true},
	} {
		var s Set
		if tt.domain != "" {
			s.ImportFrom = []configv1.RegistryLocation{{DomainName: tt.domain, Insecure: tt.insecure}}
		}
		if got := s.RefusesImport(tt.ref); got != tt.refused {
			t.Errorf("%q (insecure %v), %s: %v", tt.domain, tt.insecure, tt.ref, got)
		}
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
