package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/words"
)

// trusting returns s with additionalTrustedCA and what it holds: pairs of a host and a CA.
func trusting(s mirrors.Set, name string, cas ...string) mirrors.Set {
	s.TrustedCA, s.CAs = name, map[string]string{}
	for i := 0; i < len(cas); i += 2 {
		s.CAs[cas[i]] = cas[i+1]
	}
	return s
}

// TestOtherCAs: what goes to a registry whose CAs change is asked for anew, with those.
func TestOtherCAs(t *testing.T) {
	quay := set(itms("a", "quay.io", allow, "m.local"))
	old := trusting(quay, "old", "m.local", "A", "n.local", "A")
	insecure := quay
	insecure.Registries = configv1.RegistrySources{InsecureRegistries: []string{"m.local"}}
	unread := func(s mirrors.Set) mirrors.Set {
		s.CAs, s.CAsUnknown = nil, "reading ConfigMap openshift-config/new: forbidden"
		return s
	}
	inForce := mirrors.Location{Ref: "m.local/x:1"}
	proposed := mirrors.Location{Ref: "m.local/x:1", ProposedTrust: true}
	for _, tt := range []struct {
		name          string
		before, after mirrors.Set
		facts         policy.Facts
		want          string
		lookups       []mirrors.Location
	}{
		{"the mirror has another CA that holds", old, trusting(quay, "new", "m.local", "B", "n.local", "A"), policy.Facts{proposed: {Presence: policy.Present}}, "", []mirrors.Location{proposed}},
		{"the mirror has another CA that does not", old, trusting(quay, "new", "m.local", "B", "n.local", "A"), policy.Facts{inForce: {Presence: policy.Present}, proposed: {Presence: policy.Unreachable}, {Ref: "quay.io/x:1"}: {Presence: policy.Present}}, "deny Unverified", []mirrors.Location{proposed}},
		{"what is known of it with the CAs in force does not count", old, trusting(quay, "new", "m.local", "B"), policy.Facts{inForce: {Presence: policy.Present}}, "deny Unverified", []mirrors.Location{proposed}},
		{"the mirror loses its CA", old, trusting(quay, "new", "n.local", "A"), policy.Facts{proposed: {Presence: policy.Present}}, "", []mirrors.Location{proposed}},
		{"so it does where the ConfigMap is not there", old, trusting(quay, "new"), policy.Facts{proposed: {Presence: policy.Present}}, "", []mirrors.Location{proposed}},
		{"the mirror gets one", trusting(quay, ""), trusting(quay, "new", "m.local", "B"), policy.Facts{proposed: {Presence: policy.Mismatch}, inForce: {Presence: policy.Unreachable}, {Ref: "quay.io/x:1"}: {Presence: policy.Present}}, "deny ContentMismatch", []mirrors.Location{proposed}},
		{"another registry", old, trusting(quay, "new", "m.local", "A"), nil, "", nil},
		{"another port of it", trusting(quay, "old"), trusting(quay, "new", "m.local:5000", "B"), nil, "", nil},
		{"the same under another name", old, trusting(quay, "new", "n.local", "A", "m.local", "A"), nil, "", nil},
		{"nodes ask it for no certificate", trusting(insecure, "old"), trusting(insecure, "new", "m.local", "B"), nil, "", nil},
		{"the route changes as well", trusting(set(), "old"), trusting(quay, "new", "m.local", "B"), policy.Facts{proposed: {Presence: policy.Present}}, "", []mirrors.Location{proposed}},
		{"the new CAs are not known", old, unread(trusting(quay, "new")), nil, "deny Unverified", nil},
		{"those in force are not known, and others come", unread(old), trusting(quay, "new", "m.local", "B"), nil, "deny Unverified", nil},
		{"those in force are not known, and stay", unread(old), unread(old), nil, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := shallow(policy.Change{Before: tt.before, After: tt.after}, []policy.Image{{Ref: tag, Consumers: running}}, settings.Settings{})
			if tt.after.CAsUnknown == "" {
				if diff := cmp.Diff(tt.lookups, p.Lookups(nil)); diff != "" {
					t.Errorf("lookups -want +got:\n%s", diff)
				}
			}
			got := Decide(p, tt.facts)
			got.Findings = slices.DeleteFunc(got.Findings, func(f policy.Finding) bool { return f.Severity < policy.Deny })
			if summary(got) != tt.want {
				t.Errorf("got %q, want %q\n%s", summary(got), tt.want, words.Answer(got, "it"))
			}
		})
	}
}

// Of images that nobody knows of, any may be at such a registry.
func TestOtherCAsWithGaps(t *testing.T) {
	c := policy.Change{Before: trusting(set(), "old", "m.local", "A"), After: trusting(set(), "new", "m.local", "B")}
	if got := summary(Decide(newPlan(c, plan.Cluster{Gaps: podGap}, settings.Settings{}), nil)); got != "deny InventoryStale" {
		t.Errorf("got %q", got)
	}
}
