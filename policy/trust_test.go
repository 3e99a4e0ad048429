package policy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
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
		facts         Facts
		want          string
		lookups       []mirrors.Location
	}{
		{"the mirror has another CA that holds", old, trusting(quay, "new", "m.local", "B", "n.local", "A"), Facts{proposed: {Presence: Present}}, "", []mirrors.Location{proposed}},
		{"the mirror has another CA that does not", old, trusting(quay, "new", "m.local", "B", "n.local", "A"), Facts{inForce: {Presence: Present}, proposed: {Presence: Unreachable}, {Ref: "quay.io/x:1"}: {Presence: Present}}, "deny Unverified", []mirrors.Location{proposed}},
		{"what is known of it with the CAs in force does not count", old, trusting(quay, "new", "m.local", "B"), Facts{inForce: {Presence: Present}}, "deny Unverified", []mirrors.Location{proposed}},
		{"the mirror loses its CA", old, trusting(quay, "new", "n.local", "A"), Facts{proposed: {Presence: Present}}, "", []mirrors.Location{proposed}},
		{"so it does where the ConfigMap is not there", old, trusting(quay, "new"), Facts{proposed: {Presence: Present}}, "", []mirrors.Location{proposed}},
		{"the mirror gets one", trusting(quay, ""), trusting(quay, "new", "m.local", "B"), Facts{proposed: {Presence: Mismatch}, inForce: {Presence: Unreachable}, {Ref: "quay.io/x:1"}: {Presence: Present}}, "deny ContentMismatch", []mirrors.Location{proposed}},
		{"another registry", old, trusting(quay, "new", "m.local", "A"), nil, "", nil},
		{"another port of it", trusting(quay, "old"), trusting(quay, "new", "m.local:5000", "B"), nil, "", nil},
		{"the same under another name", old, trusting(quay, "new", "n.local", "A", "m.local", "A"), nil, "", nil},
		{"nodes ask it for no certificate", trusting(insecure, "old"), trusting(insecure, "new", "m.local", "B"), nil, "", nil},
		{"the route changes as well", trusting(set(), "old"), trusting(quay, "new", "m.local", "B"), Facts{proposed: {Presence: Present}}, "", []mirrors.Location{proposed}},
		{"the new CAs are not known", old, unread(trusting(quay, "new")), nil, "deny Unverified", nil},
		{"those in force are not known, and stay", unread(old), unread(old), nil, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := shallow(Change{tt.before, tt.after}, []Image{{tag, running}}, Settings{})
			if tt.after.CAsUnknown == "" {
				if diff := cmp.Diff(tt.lookups, p.Lookups(nil)); diff != "" {
					t.Errorf("lookups -want +got:\n%s", diff)
				}
			}
			got := p.Decide(tt.facts)
			got.Findings = slices.DeleteFunc(got.Findings, func(f Finding) bool { return f.Severity < Deny })
			if summary(got) != tt.want {
				t.Errorf("got %q, want %q\n%s", summary(got), tt.want, got.Answer("it"))
			}
		})
	}
}

// Of images that nobody knows of, any may be at such a registry.
func TestOtherCAsWithGaps(t *testing.T) {
	c := Change{trusting(set(), "old", "m.local", "A"), trusting(set(), "new", "m.local", "B")}
	if got := summary(newPlan(c, Cluster{Gaps: podGap}, Settings{}).Decide(nil)); got != "deny InventoryStale" {
		t.Errorf("got %q", got)
	}
}
