//go:build integration

package changefile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// TestApply: Image cluster becomes what kubectl apply makes of it.
func TestApply(t *testing.T) {
	c := cluster.New(t)
	run := func(input string, args ...string) string {
		t.Helper()
		out, err := c.Kubectl(t.Context(), input, args...)
		if err != nil {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
		return out
	}
	for _, tt := range []struct {
		reason  string
		created string // by kubectl create, which leaves no trace of what it was given
		applied string // by kubectl apply
		patched string // by somebody else since, a merge patch
		change  string // what is applied now: the spec
		want    configv1.ImageSpec
		merged  bool // whether a note says so
	}{
		{
			reason:  "what the file leaves out stays",
			created: "spec: {registrySources: {blockedRegistries: [a.example.com]}, additionalTrustedCA: {name: cas}}\n",
			change:  "spec: {registrySources: {insecureRegistries: [b.example.com]}}\n",
			want: configv1.ImageSpec{
				AdditionalTrustedCA: configv1.ConfigMapNameReference{Name: "cas"},
				RegistrySources:     configv1.RegistrySources{BlockedRegistries: []string{"a.example.com"}, InsecureRegistries: []string{"b.example.com"}},
			},
			merged: true,
		},
		{
			reason:  "what was applied before and is left out now goes away",
			applied: "spec: {registrySources: {blockedRegistries: [a.example.com], insecureRegistries: [b.example.com]}}\n",
			change:  "spec: {registrySources: {insecureRegistries: [b.example.com]}}\n",
			want:    configv1.ImageSpec{RegistrySources: configv1.RegistrySources{InsecureRegistries: []string{"b.example.com"}}},
		},
		{
			reason:  "what somebody else has set since stays",
			applied: "spec: {registrySources: {blockedRegistries: [a.example.com]}}\n",
			patched: `{"spec":{"registrySources":{"blockedRegistries":["c.example.com"],"insecureRegistries":["d.example.com"]}}}`,
			change:  "spec: {registrySources: {insecureRegistries: [b.example.com]}}\n",
			want:    configv1.ImageSpec{RegistrySources: configv1.RegistrySources{InsecureRegistries: []string{"b.example.com"}}},
		},
		{
			reason:  "a list replaces a list, and null takes away",
			created: "spec: {registrySources: {blockedRegistries: [a.example.com, b.example.com], insecureRegistries: [c.example.com]}}\n",
			change:  "spec: {registrySources: {blockedRegistries: [d.example.com], insecureRegistries: null}}\n",
			want:    configv1.ImageSpec{RegistrySources: configv1.RegistrySources{BlockedRegistries: []string{"d.example.com"}}},
		},
		{
			reason:  "the whole object",
			created: "spec: {registrySources: {blockedRegistries: [a.example.com]}}\n",
			change:  "spec: {registrySources: {blockedRegistries: [a.example.com, b.example.com]}}\n",
			want:    configv1.ImageSpec{RegistrySources: configv1.RegistrySources{BlockedRegistries: []string{"a.example.com", "b.example.com"}}},
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			run("", "delete", "images.config.openshift.io", "cluster", "--ignore-not-found")
			if tt.created != "" {
				run(imageHead+tt.created, "create", "-f", "-")
			} else {
				run(imageHead+tt.applied, "apply", "-f", "-")
			}
			if tt.patched != "" {
				run("", "patch", "images.config.openshift.io", "cluster", "--type=merge", "-p", tt.patched)
			}
			inForce := run("", "get", "images.config.openshift.io", "cluster", "-o", "json")
			var kubectls configv1.Image
			out := run(imageHead+tt.change, "apply", "--dry-run=server", "-o", "json", "-f", "-")
			if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &kubectls); err != nil { // a warning may come first
				t.Fatalf("%v:\n%s", err, out)
			}
			var r Reader
			r.Read("it", strings.NewReader(imageHead+tt.change))
			if !r.DependsOnCurrent() {
				t.Error("Image cluster does not depend on the one in force")
			}
			edit, notes, err := r.EditOn(func(mirrors.Object) ([]byte, error) { return []byte(inForce), nil })
			if err != nil {
				t.Fatal(err)
			}
			got := edit.Apply(mirrors.Set{})
			for name, want := range map[string]configv1.ImageSpec{"the row": tt.want, "kubectl": kubectls.Spec} {
				if diff := cmp.Diff(want.RegistrySources, got.Registries); diff != "" || got.TrustedCA != want.AdditionalTrustedCA.Name {
					t.Errorf("%s (-want +got):\n%s CA %q, want %q", name, diff, got.TrustedCA, want.AdditionalTrustedCA.Name)
				}
			}
			if len(notes) > 0 != tt.merged {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
