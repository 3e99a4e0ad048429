package mirrors

import (
	"math/rand/v2"
	"reflect"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// TestTablesAreThoseOfResolve holds what is kept to what is worked out anew, for random sets.
func TestTablesAreThoseOfResolve(t *testing.T) {
	for seed := range uint64(100) {
		g := gen{rand.New(rand.NewPCG(seed, 32))}
		s := g.any(t)
		r := NewTables(s)
		for range 2 {
			for _, pool := range []string{"", workerPool, masterPool} {
				want, wantErr := Resolve(s.At(pool))
				got, err := r.Resolve(pool)
				if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
					t.Fatalf("seed %d: %v, %v, want %v, %v", seed, got, err, want, wantErr)
				}
				want, _ = ResolveUnchecked(s.At(pool))
				if got, _ = r.ResolveUnchecked(pool); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: unchecked: %v, want %v", seed, got, want)
				}
			}
		}
	}
}

// TestSetEqual changes a set in each of its fields.
func TestSetEqual(t *testing.T) {
	set := func() Set {
		tags, policy := &configv1.ImageTagMirrorSet{}, &configv1.ClusterImagePolicy{}
		tags.Name, policy.Name = "tags", "policy"
		tags.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: "quay.io", Mirrors: []configv1.ImageMirror{"m.local"}}}
		return Set{
			Objects: []Object{tags}, Policies: []Object{policy}, Pinned: []Object{&mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{Name: "pinned"}}}, Registries: configv1.RegistrySources{BlockedRegistries: []string{"a"}},
			Payload: "p", ImportFrom: []configv1.RegistryLocation{{DomainName: "quay.io"}}, TrustedCA: "ca", CAs: map[string]string{"h": "pem"}, CAsUnknown: "u",
			Applied: &Applied{Files: map[string][]byte{RegistriesConfPath: []byte("r"), SearchDropInPath: []byte("s"), policyfile.PolicyJSONPath: []byte("p")}},
			Files:   []File{{MachineConfig: "mc", Role: "worker", Path: "/p", Contents: []byte("c")}}, Pool: "worker",
		}
	}
	if !set().Equal(set()) {
		t.Fatal("a set is not equal to its like")
	}
	for field := range reflect.TypeFor[Set]().NumField() {
		changed := set()
		reflect.ValueOf(&changed).Elem().Field(field).SetZero()
		if set().Equal(changed) || changed.Equal(set()) {
			t.Errorf("%s makes no difference", reflect.TypeFor[Set]().Field(field).Name)
		}
	}
	for name, change := range map[string]func(*Set){
		"a mirror": func(s *Set) {
			s.Objects[0].(*configv1.ImageTagMirrorSet).Spec.ImageTagMirrors[0].Mirrors[0] = "n.local"
		},
		"a name": func(s *Set) { s.Objects[0].SetName("other") },
		"a kind": func(s *Set) {
			o := &configv1.ImageDigestMirrorSet{}
			o.Name = "tags"
			s.Objects[0] = o
		},
		"a scope":         func(s *Set) { s.Policies[0].(*configv1.ClusterImagePolicy).Spec.Scopes = []configv1.ImageScope{"x"} },
		"a list":          func(s *Set) { s.Registries.BlockedRegistries[0] = "b" },
		"what is written": func(s *Set) { s.Applied.Files[policyfile.PolicyJSONPath] = []byte("q") },
		"a file":          func(s *Set) { s.Files[0].Contents = []byte("d") },
		"a role":          func(s *Set) { s.Files[0].Role = "master" },
		"a certificate":   func(s *Set) { s.CAs["h"] = "other" },
	} {
		changed := set()
		change(&changed)
		if set().Equal(changed) {
			t.Errorf("%s makes no difference", name)
		}
	}
}
