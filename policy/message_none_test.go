package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestReroutesNone: silence about a change that no known image has to do with would read
// as if something had been verified.
func TestReroutesNone(t *testing.T) {
	other := itms("other", "registry.example.org", "", "m.local")
	three := []Image{{Ref: "quay.io/a:1"}, {Ref: "quay.io/b:1"}, {Ref: "quay.io/c:1"}}
	blocked := mirrors.Set{Registries: configv1.RegistrySources{BlockedRegistries: []string{"registry.example.org"}}}
	for _, tc := range []struct {
		name          string
		before, after mirrors.Set
		images        []Image
		want          []string
	}{
		{"of several", set(), set(other), three, []string{"X reroutes none of the 3 images in use: nothing was verified"}},
		{"of one", set(), set(other), three[:1], []string{"X does not reroute the one image in use: nothing was verified"}},
		{"of none", set(), set(other), nil, []string{"X reroutes nothing because no image is known to be in use: nothing was verified"}},
		{"a registry list", set(), blocked, three, []string{"X reroutes none of the 3 images in use: nothing was verified"}},
		{"what is taken away covers nobody", set(other), set(), three, nil},
		{"nothing changes", set(other), set(other), three, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := shallow(Change{tc.before, tc.after}, tc.images, Settings{}).Decide(nil)
			if diff := cmp.Diff(tc.want, v.Warnings("X")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHostileReference: an image reference may be any text. Nothing of it can forge a
// line of a message, or reach a terminal as more than characters.
func TestHostileReference(t *testing.T) {
	hostile := Image{Ref: "quay.io/x\x1b[2J\nWarning: all is well\u202e", Consumers: []Consumer{{Kind: "Pod", Namespace: "a\nb", Name: "c\x07", Container: "d\re"}}}
	finding := Finding{Rule: "ImageMissing", Severity: Deny, Image: hostile, Reason: "no\nreason", Detail: []string{"a\u009bb\nc"}, Remedy: []string{"oc image mirror\tx\x00"}}
	v := Verdict{Findings: []Finding{finding}, Counts: Counts{Total: 1, Rerouted: 1}}
	const want = `X is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x[2J Warning: all is well
   used by Pod a b/c (d e)
   ImageMissing: no reason
   - ab c
   To do: oc image mirror	x

Nothing was changed. For the full list: mirrorset-guard check -f FILE`
	if diff := cmp.Diff(want, v.Message("X")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	finding.Severity = Warn
	v = Verdict{Allowed: true, Findings: []Finding{finding}, Counts: Counts{Total: 1, Rerouted: 1, Verified: 1}}
	warnings := []string{"X reroutes 1 of 1 image: all verified", "ImageMissing: 1 image: no reason; first quay.io/x[2J Warning: all is well"}
	if diff := cmp.Diff(warnings, v.Warnings("X")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
