package mirrors

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestRefused: what the signature policy of the nodes says, from MCO's
// updatePolicyJSON and getValidBlockedAndAllowedRegistries.
func TestRefused(t *testing.T) {
	const payload = "quay.io/openshift-release-dev/ocp-release" + "@" + digestA
	mirrored := []Object{idms("a", "quay.io", allow, "m.local")}
	tests := []struct {
		name       string
		set        Set
		image      string
		want, note string
	}{
		{"nothing set", Set{}, "quay.io/x:1", "", ""},
		{"blocked", Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}}, "quay.io/x:1", "blockedRegistries of Image cluster names quay.io", ""},
		{"blocked, with a mirror", Set{Objects: mirrored, Registries: configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}}, "quay.io/x@" + digestA, "blockedRegistries of Image cluster names quay.io", "looked up by the name that was asked for"},
		{"the mirror is blocked, the source is not", Set{Objects: mirrored, Registries: configv1.RegistrySources{BlockedRegistries: []string{"m.local"}}}, "quay.io/x@" + digestA, "", ""},
		{"not allowed", Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"quay.io/shop"}}}, "quay.io/team/x:1", "allowedRegistries of Image cluster does not name its registry", ""},
		{"allowed namespace", Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"quay.io/shop"}}}, "quay.io/shop/x:1", "", ""},
		{"allowed wildcard", Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"*.example.com"}}}, "a.b.example.com/x:1", "", ""},
		{"host with a port is another scope", Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"example.com"}}}, "example.com:5000/x:1", "allowedRegistries of Image cluster does not name its registry", "unlike in registries.conf"},
		{"the payload's repository, without a mirror: MCO leaves the entry out", Set{Payload: payload, Registries: configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}}, "quay.io/x:1", "", ""},
		{"the payload's repository, with a digest mirror", Set{Payload: payload, Objects: mirrored, Registries: configv1.RegistrySources{BlockedRegistries: []string{"quay.io/openshift-release-dev/ocp-release"}}}, payload, "", "spared, as its mirrors have to work"},
		{"one of two search registries is allowed", Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"docker.io"}}}, "nginx", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, err := Resolve(tt.set)
			if err != nil {
				t.Fatal(err)
			}
			route, err := table.Route(tt.image, "")
			if err != nil {
				t.Fatal(err)
			}
			if route.Refused != tt.want {
				t.Errorf("refused: %q, want %q %s", route.Refused, tt.want, tt.note)
			}
		})
	}
}
