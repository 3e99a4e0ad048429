package mirrors

import (
	"bytes"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// A file that MCO wrote says of every image what the objects say that it was made of.
func TestResolveApplied(t *testing.T) {
	images := []string{"quay.io/shop/cart:1", "quay.io/shop/cart@" + digestA, "quay.io/team/x@" + digestA, "a.b.example.com/x:1", "nginx", "m.local/x:1"}
	for name, s := range map[string]Set{
		"none":              {},
		"both kinds":        {Objects: []Object{itms("a", "quay.io", allow, "m.local", "n.local/x"), idms("b", "quay.io/team", configv1.NeverContactSource, "m.local/team")}},
		"wildcard":          {Objects: []Object{itms("a", "*.example.com", configv1.NeverContactSource, "m.local")}},
		"blocked":           {Registries: configv1.RegistrySources{BlockedRegistries: []string{"m.local"}, InsecureRegistries: []string{"quay.io/shop"}}},
		"search registries": {Registries: configv1.RegistrySources{ContainerRuntimeSearchRegistries: []string{"quay.io"}}},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := Resolve(s)
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			if err := toml.NewEncoder(&file).Encode(want.Config()); err != nil {
				t.Fatal(err)
			}
			got, err := ResolveApplied(Set{Applied: &Applied{Files: map[string][]byte{RegistriesConfPath: file.Bytes()}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, image := range images {
				a, err1 := want.Route(image, "")
				b, err2 := got.Route(image, "")
				a.Refused, b.Refused = "", "" // is in the other file
				for i := range a.Sources {
					a.Sources[i].Refused = false
				}
				if err1 != nil || err2 != nil || !a.Equal(b) {
					t.Errorf("%s: %s, want %s", image, cmp.Diff(a.Sources, b.Sources), err2)
				}
			}
		})
	}
}

// TestAppliedSearch: the search list that MCO wrote is read after a file of somebody's, whatever Image cluster says by now.
func TestAppliedSearch(t *testing.T) {
	s := Set{Applied: &Applied{Files: map[string][]byte{SearchDropInPath: []byte(`unqualified-search-registries = ["a.example"]`)}}}
	s.Registries.ContainerRuntimeSearchRegistries = []string{"b.example", "a.example"}
	s.Files = []File{{MachineConfig: "50-house", Role: "worker", Path: "/etc/containers/registries.conf.d/00.conf", Contents: []byte(`unqualified-search-registries = ["house.example"]`)}}
	table, err := ResolveApplied(s)
	if err != nil {
		t.Fatal(err)
	}
	if route, err := table.Route("app:1", ""); err != nil || len(route.Sources) != 1 || route.Sources[0].Ref != "a.example/app:1" {
		t.Errorf("%+v, %v", route.Sources, err)
	}
}

// policy.json decides by the longest name, then by its defaults; what is not reject is
// accepted.
func TestAppliedPolicy(t *testing.T) {
	const accept, reject = `[{"type": "insecureAcceptAnything"}]`, `[{"type": "reject"}]`
	for _, tt := range []struct{ name, file, image, want string }{
		{"no file: that of the system accepts", "", "quay.io/x:1", ""},
		{"accepted by default", `{"default": ` + accept + `}`, "quay.io/x:1", ""},
		{"rejected by default", `{"default": ` + reject + `}`, "quay.io/x:1", "does not name its registry"},
		{"the default of the transport goes before", `{"default": ` + reject + `, "transports": {"docker": {"": ` + accept + `}}}`, "quay.io/x:1", ""},
		{"blocked", `{"default": ` + accept + `, "transports": {"docker": {"quay.io": ` + reject + `}}}`, "quay.io/x:1", "names quay.io"},
		{"of another transport", `{"default": ` + accept + `, "transports": {"atomic": {"quay.io": ` + reject + `}}}`, "quay.io/x:1", ""},
		{"a narrower scope is accepted", `{"default": ` + reject + `, "transports": {"docker": {"quay.io/shop": ` + accept + `}}}`, "quay.io/shop/x:1", ""},
		{"signed: not decided by name", `{"default": ` + reject + `, "transports": {"docker": {"quay.io": [{"type": "sigstoreSigned"}]}}}`, "quay.io/x:1", ""},
		{"all requirements have to be met", `{"default": [{"type": "sigstoreSigned"}, {"type": "reject"}]}`, "quay.io/x:1", "does not name its registry"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, err := ResolveApplied(Set{Applied: &Applied{Files: map[string][]byte{policyfile.PolicyJSONPath: []byte(tt.file)}}})
			if err != nil {
				t.Fatal(err)
			}
			route, err := table.Route(tt.image, "")
			if err != nil {
				t.Fatal(err)
			}
			if (route.Refused == "") != (tt.want == "") || !strings.Contains(route.Refused, tt.want) {
				t.Errorf("refused: %q, want %q", route.Refused, tt.want)
			}
		})
	}
}

func TestAppliedThatNodesCannotRead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		applied Applied
		want    string
	}{
		{"no TOML", Applied{Files: map[string][]byte{RegistriesConfPath: []byte("[")}}, RegistriesConfPath + ": "},
		{"an entry with a scheme", Applied{Files: map[string][]byte{RegistriesConfPath: []byte("[[registry]]\nlocation = \"https://quay.io\"")}}, RegistriesConfPath + `: location "https://quay.io" has a URI scheme`},
		{"no TOML in the drop-in", Applied{Files: map[string][]byte{SearchDropInPath: []byte("[")}}, SearchDropInPath + ": "},
		{"no JSON", Applied{Files: map[string][]byte{policyfile.PolicyJSONPath: []byte("{")}}, policyfile.PolicyJSONPath + ": "},
	} {
		_, err := ResolveApplied(Set{Applied: &tt.applied})
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
