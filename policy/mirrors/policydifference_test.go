package mirrors

import (
	"slices"
	"testing"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// TestPolicyDifferences compares objects with the files that MCO made of others.
func TestPolicyDifferences(t *testing.T) {
	const all = "all other images"
	lists := func(allowed, blocked []string) Object {
		return image(configv1.RegistrySources{AllowedRegistries: allowed, BlockedRegistries: blocked})
	}
	list := func(scopes ...string) []string { return scopes }
	refuses := lists(nil, list("quay.io/bad"))
	for _, tt := range []struct {
		reason         string
		objects, nodes Set
		want           []Difference
	}{
		{"nothing anywhere", Set{}, Set{}, nil},
		{"the same list", put(Set{}, refuses), put(Set{}, refuses), nil},
		{"allowed since", put(Set{}, lists(list("quay.io", "*.example.com"), nil)), Set{}, []Difference{
			{policyfile.PolicyJSONPath, "*.example.com", "accepted", ""},
			{policyfile.PolicyJSONPath, all, "refused", "accepted"},
			{policyfile.PolicyJSONPath, "quay.io", "accepted", ""},
		}},
		{"no longer blocked", Set{}, put(Set{}, refuses), []Difference{{policyfile.PolicyJSONPath, "quay.io/bad", "", "refused"}}},
		{"a policy of the cluster", put(Set{}, clusterPolicy("signed", "quay.io/team")), Set{}, []Difference{
			{policyfile.PolicyJSONPath, "quay.io/team", "signatures required", ""},
			{policyfile.AttachmentsPath, "quay.io/team", "signatures are looked for", ""},
		}},
		{"of a namespace", put(Set{}, imagePolicy("shop", "signed", "quay.io/team")), Set{}, []Difference{
			{policyfile.AttachmentsPath, "quay.io/team", "signatures are looked for", ""},
			{"/etc/crio/policies/shop.json", "quay.io/team", "signatures required", ""},
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			objects, err := Resolve(tt.objects)
			if err != nil {
				t.Fatal(err)
			}
			files, err := Rendered(tt.nodes)
			if err != nil {
				t.Fatal(err)
			}
			nodes, err := ResolveApplied(Set{Applied: &Applied{Files: files}})
			if err != nil {
				t.Fatal(err)
			}
			if got := PolicyDifferences(objects, nodes); !slices.Equal(got, tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestOtherSignatures: which keys are required is a difference, though the words are the same.
func TestOtherSignatures(t *testing.T) {
	files := map[string][]byte{policyfile.PolicyJSONPath: []byte(`{"default":[{"type":"insecureAcceptAnything"}],"transports":{"docker":{"quay.io/team":[{"type":"signedBy","keyType":"GPGKeys","keyPath":"/etc/pki/key"}]}}}`)}
	nodes, err := ResolveApplied(Set{Applied: &Applied{Files: files}})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Resolve(put(Set{}, clusterPolicy("signed", "quay.io/team")))
	if err != nil {
		t.Fatal(err)
	}
	want := Difference{policyfile.PolicyJSONPath, "quay.io/team", "signatures required", "other signatures required"}
	if got := PolicyDifferences(objects, nodes); !slices.Contains(got, want) {
		t.Errorf("got %+v, want %+v among them", got, want)
	}
}

// TestMayBeSpared: with the release image known, Rendered leaves out what MCO leaves out, and
// nothing else is intended.
func TestMayBeSpared(t *testing.T) {
	const release = "quay.io/openshift-release-dev/ocp-release@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	blocked := put(Set{}, image(configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}))
	missing := Difference{Scope: "quay.io", Objects: "blocked"}
	known := blocked
	known.Payload = release
	for _, tt := range []struct {
		reason string
		set    Set
		d      Difference
		want   bool
	}{
		{"which image it is, is not known", blocked, missing, true},
		{"what is in policy.json depends on it too", blocked, Difference{File: policyfile.PolicyJSONPath, Scope: "quay.io", Objects: "refused"}, true},
		{"it is known", known, missing, false},
		{"not listed", blocked, Difference{Scope: "docker.io", Objects: "blocked"}, false},
		{"blocked on the node too", blocked, Difference{Scope: "quay.io", Objects: "blocked", MachineConfig: "blocked, insecure"}, false},
		{"nothing is listed", Set{}, Difference{File: policyfile.PolicyJSONPath, Scope: "quay.io", Objects: "refused"}, false},
	} {
		if got := tt.set.MayBeSpared(tt.d); got != tt.want {
			t.Errorf("%s: got %v", tt.reason, got)
		}
	}
}

// TestDifferences: entries are compared scope by scope, in words that have all that nodes heed, and so are search registries.
func TestDifferences(t *testing.T) {
	conf := func(text string) sysregistriesv2.V2RegistriesConf {
		parsed, err := parseFile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	objects := conf("unqualified-search-registries = ['docker.io']\n[[registry]]\nlocation = 'quay.io/team'\n[[registry.mirror]]\nlocation = 'm.local/team'\npull-from-mirror = 'digest-only'\n")
	former := conf("unqualified-search-registries = ['docker.io']\n[[registry]]\nprefix = 'quay.io/team'\nlocation = 'quay.io/team'\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = 'm.local/team'\n")
	if got := Differences(objects, former); len(got) > 0 {
		t.Errorf("mirror-by-digest-only, as it used to be: %v", got)
	}
	nodes := conf("unqualified-search-registries = ['quay.io']\n[[registry]]\nprefix = 'a.local'\nlocation = 'b.local'\nblocked = true\ninsecure = true\n[[registry.mirror]]\nlocation = 'm.local'\ninsecure = true\npull-from-mirror = 'tag-only'\n[[registry.mirror]]\nlocation = 'n.local'\n[[registry]]\nlocation = 'c.local'\n")
	want := []Difference{
		{Scope: "a.local", MachineConfig: "blocked, insecure, location b.local, mirror m.local (tags, insecure), mirror n.local (all pulls)"},
		{Scope: "c.local", MachineConfig: "no setting"},
		{Scope: "quay.io/team", Objects: "mirror m.local/team (digests)"},
		{Scope: "unqualified-search-registries", Objects: "docker.io", MachineConfig: "quay.io"},
	}
	if got := Differences(objects, nodes); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}
