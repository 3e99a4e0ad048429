package mirrors

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// TestConflictingScopes has the rows of MCO's own table for the check
// (TestValidateClusterImagePolicyWithAllowedBlockedRegistries at 7ff337a4).
func TestConflictingScopes(t *testing.T) {
	tests := []struct {
		name                string
		allowed, blocked    []string
		cluster, namespaced []configv1.ImageScope
		want                bool
	}{
		{"allowed and blocked registries are not set", nil, nil, []configv1.ImageScope{"example.com", "test.registries.com"}, []configv1.ImageScope{"exaple.app.com", "testapp.registries.com"}, false},
		{"success test allowed registries set", []string{"example.com", "allowed.io/namespace1"}, nil, []configv1.ImageScope{"allowed.io/namespace1/policysigned", "example.com"}, []configv1.ImageScope{"allowed.io/namespace1/app/policysigned"}, false},
		{"failure test allowed registries set", []string{"allowed.io/namespace1/namespace2"}, nil, []configv1.ImageScope{"allowed.io/policysigned"}, nil, true},
		{"success test blocked registries set", nil, []string{"blocked.io/namespace1/namespace2", "blocked.example.com/namespace1/namespace2"}, []configv1.ImageScope{"allowed.io/policysigned", "blocked.io"}, []configv1.ImageScope{"allowed.io/namespace1/app/policysigned", "blocked.example.com/app/policysigned"}, false},
		{"failure test blocked registries set", nil, []string{"blocked.io", "blocker-reg.com/namespace1"}, []configv1.ImageScope{"blocker-reg.com/namespace1/policysigned", "blocked.io"}, nil, true},
		{"imagepolicy failure test allowed registries set", []string{"allowed.io/namespace1/namespace2"}, nil, nil, []configv1.ImageScope{"allowed.io/app/policysigned"}, true},
		{"imagepolicy failure test blocked registries set", nil, []string{"blocked.io", "blocker-reg.com/namespace1"}, nil, []configv1.ImageScope{"blocker-reg.com/namespace1/policysigned", "blocked.io"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Set{Registries: configv1.RegistrySources{AllowedRegistries: tt.allowed, BlockedRegistries: tt.blocked}}
			s = put(s, clusterPolicy("c", tt.cluster...), imagePolicy("shop", "n", tt.namespaced...))
			if got := rejected(s); (got != nil) != tt.want {
				t.Errorf("rejected for %v, want rejected: %v", got, tt.want)
			}
		})
	}
}

// TestRejectedPolicies: what an administrator reads, and what MCO spares.
func TestRejectedPolicies(t *testing.T) {
	const release = "quay.io/openshift-release-dev/ocp-release"
	payload := func(s Set) Set {
		s.Payload = release + "@sha256:" + "0000000000000000000000000000000000000000000000000000000000000000"
		return s
	}
	blocked := func(list ...string) Object { return image(configv1.RegistrySources{BlockedRegistries: list}) }
	allowed := func(list ...string) Object { return image(configv1.RegistrySources{AllowedRegistries: list}) }
	mirrored := idms("release", release, "", "m.local/release")
	tests := []struct {
		reason string
		set    Set
		want   []string
	}{
		{"a blocked registry covers the payload, and it has no mirror: MCO leaves it out", payload(put(Set{}, blocked("quay.io"), clusterPolicy("signed", release))), nil},
		{
			"a mirror for the payload brings it back", payload(put(Set{}, blocked("quay.io"), clusterPolicy("signed", release), mirrored)),
			[]string{`scope "quay.io/openshift-release-dev/ocp-release" of ClusterImagePolicy signed is inside blockedRegistries of Image cluster (quay.io), which counts as the release payload, blocked by it, has a digest mirror`},
		},
		{"a tag mirror does not", payload(put(Set{}, blocked("quay.io"), clusterPolicy("signed", release), itms("release", release, "", "m.local/release"))), nil},
		{"nor a mirror that is blocked", payload(put(Set{}, blocked("quay.io", "m.local"), clusterPolicy("signed", release), mirrored)), nil},
		{"the very repository of the payload is not blocked in policy.json", payload(put(Set{}, blocked(release), clusterPolicy("signed", release), mirrored)), nil},
		{
			"but then nothing else is allowed", payload(put(Set{}, blocked(release), clusterPolicy("other", "other.io"), mirrored)),
			[]string{`scope "other.io" of ClusterImagePolicy other is outside quay.io/openshift-release-dev/ocp-release, which is all that is allowed where blockedRegistries of Image cluster covers the release payload and that has a digest mirror`},
		},
		{
			"two policies, one scope", put(Set{}, blocked("bad.io", "bad.io/x"), clusterPolicy("a", "bad.io/x/y"), clusterPolicy("b", "bad.io/x/y")),
			[]string{`scope "bad.io/x/y" of ClusterImagePolicy a, ClusterImagePolicy b is inside blockedRegistries of Image cluster (bad.io, bad.io/x)`},
		},
		{
			"outside of what is allowed", put(Set{}, allowed("good.io"), imagePolicy("shop", "signed", "bad.io")),
			[]string{`scope "bad.io" of ImagePolicy shop/signed is outside allowedRegistries of Image cluster (good.io)`},
		},
		{"a scope of a namespace inside one of the cluster is skipped", put(Set{}, blocked("reg.io/x/y"), clusterPolicy("a", "reg.io/x"), imagePolicy("shop", "b", "reg.io/x/y/z")), nil},
		{"an equal scope is skipped", put(Set{}, allowed("reg.io"), clusterPolicy("a", "reg.io/x"), imagePolicy("shop", "b", "reg.io/x")), nil},
		{
			"but where the policy of the cluster has to go", put(Set{}, blocked("reg.io"), clusterPolicy("a", "reg.io/x"), imagePolicy("shop", "b", "reg.io/x/y")),
			[]string{
				`scope "reg.io/x" of ClusterImagePolicy a is inside blockedRegistries of Image cluster (reg.io)`,
				`scope "reg.io/x/y" of ImagePolicy shop/b is inside blockedRegistries of Image cluster (reg.io)`,
			},
		},
		{"a wildcard", put(Set{}, blocked("*.example.com"), clusterPolicy("a", "a.example.com/x")), []string{`scope "a.example.com/x" of ClusterImagePolicy a is inside blockedRegistries of Image cluster (*.example.com)`}},
		{"an image with its tag: MCO's nesting ends at slashes", put(Set{}, blocked("reg.io/x"), clusterPolicy("a", "reg.io/x:1")), nil},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var got []string
			if r := rejected(tt.set); r != nil {
				for _, reason := range r.Reasons {
					got = append(got, reason.String())
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("reasons\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

// TestPoliciesByNamespace: a policy is told from its namesake in another namespace, and
// from that of the cluster.
func TestPoliciesByNamespace(t *testing.T) {
	s := put(Set{}, clusterPolicy("p", "a.io"), imagePolicy("shop", "p", "b.io"), imagePolicy("web", "p", "c.io"), imagePolicy("shop", "p", "d.io"))
	s = Delete(imagePolicy("web", "p")).Apply(s)
	got := convert.Each(s.Policies, NameOf)
	if want := []string{"ClusterImagePolicy p", "ImagePolicy shop/p"}; !slices.Equal(got, want) || len(s.Objects) > 0 {
		t.Errorf("policies %q and %d objects, want %q", got, len(s.Objects), want)
	}
	if scope := s.Policies[1].(*configv1.ImagePolicy).Spec.Scopes[0]; scope != "d.io" {
		t.Errorf("ImagePolicy shop/p has scope %s, want d.io", scope)
	}
}

// TestManyScopes: a policy may have a thousand scopes; each image is under the narrowest.
func TestManyScopes(t *testing.T) {
	var scopes []configv1.ImageScope
	for i := range 1000 {
		scopes = append(scopes, configv1.ImageScope(fmt.Sprintf("quay.io/team-%d", i)))
	}
	table, err := Resolve(put(Set{}, clusterPolicy("p", append(scopes, "quay.io/team-7/app", "quay.io/team-7/app:v1")...)))
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"quay.io/team-7/web:v1": "quay.io/team-7", "quay.io/team-999/a/b@" + "sha256:" + strings.Repeat("a", 64): "quay.io/team-999",
		"quay.io/team-7/app:v2": "quay.io/team-7/app", "quay.io/team-7/app:v1": "quay.io/team-7/app:v1", "quay.io/team-1000/app:v1": "",
	} {
		route, err := table.Route(image, "")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if trust := route.Sources[0].Trust; trust != nil {
			got = trust.Scope
		}
		if got != want {
			t.Errorf("%s: scope %q, want %q", image, got, want)
		}
	}
}

// TestNoTagForSignatures: no tag is long enough for some digests, so that nodes find no signature.
func TestNoTagForSignatures(t *testing.T) {
	l := Location{Ref: "quay.io/x:1"}
	if at, ok := l.Signatures("sha256:" + strings.Repeat("a", 64)); !ok || at.Ref != "quay.io/x:sha256-"+strings.Repeat("a", 64)+".sig" {
		t.Errorf("got %v, %t", at, ok)
	}
	if at, ok := l.Signatures("sha512:" + strings.Repeat("a", 128)); ok {
		t.Errorf("got %v", at)
	}
}
