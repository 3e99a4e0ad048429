package mirrors

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// TestRendered: which files a set decides on, and which it leaves to MCO's templates.
func TestRendered(t *testing.T) {
	lists := func(r configv1.RegistrySources) Set { return Set{Registries: r} }
	for _, tt := range []struct {
		name string
		set  Set
		want string // the files that are not the template's
	}{
		{"nothing", Set{}, ""},
		{"a mirror", put(Set{}, idms("a", "quay.io", "", "m.local")), RegistriesConfPath},
		{"an entry that comes to nothing is another file all the same", put(Set{}, idms("a", "quay.io", "")), RegistriesConfPath},
		{"insecure registries", lists(configv1.RegistrySources{InsecureRegistries: []string{"a.io"}}), RegistriesConfPath},
		{"none of them, but said", lists(configv1.RegistrySources{InsecureRegistries: []string{}}), RegistriesConfPath},
		{"blocked registries", lists(configv1.RegistrySources{BlockedRegistries: []string{"a.io"}}), policyfile.PolicyJSONPath + " " + RegistriesConfPath},
		{"allowed registries", lists(configv1.RegistrySources{AllowedRegistries: []string{"a.io"}}), policyfile.PolicyJSONPath},
		{"search registries", lists(configv1.RegistrySources{ContainerRuntimeSearchRegistries: []string{"a.io"}}), SearchDropInPath},
		{"with a mirror they are not in registries.conf", put(lists(configv1.RegistrySources{ContainerRuntimeSearchRegistries: []string{"a.io"}}), idms("a", "quay.io", "", "m.local")), RegistriesConfPath + " " + SearchDropInPath},
		{"a policy of the cluster", put(Set{}, clusterPolicy("c", "a.io")), policyfile.PolicyJSONPath + " " + policyfile.AttachmentsPath},
		{"a policy of a namespace", put(Set{}, imagePolicy("shop", "n", "a.io")), policyfile.AttachmentsPath + " /etc/crio/policies/shop.json"},
		{"one inside that of the cluster is skipped", put(Set{}, clusterPolicy("c", "a.io"), imagePolicy("shop", "n", "a.io/x")), policyfile.PolicyJSONPath + " " + policyfile.AttachmentsPath},
		{"a blocked registry that is spared for the payload", Set{Payload: "quay.io/ocp/release@sha256:" + strings.Repeat("0", 64), Registries: configv1.RegistrySources{BlockedRegistries: []string{"quay.io"}}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files, err := Rendered(tt.set)
			if err != nil {
				t.Fatal(err)
			}
			base := baseFiles()
			maps.DeleteFunc(files, func(path string, data []byte) bool { return bytes.Equal(data, base[path]) })
			if got := strings.Join(slices.Sorted(maps.Keys(files)), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRenderedText holds the files to what MCO writes with the same libraries. Their version
// decides which empty settings are written out.
func TestRenderedText(t *testing.T) {
	s := put(Set{Registries: configv1.RegistrySources{
		BlockedRegistries: []string{"block.com/a/b/c"}, InsecureRegistries: []string{"quay.io/x"}, ContainerRuntimeSearchRegistries: []string{"a.io"},
	}}, itms("a", "quay.io", never, "m.local"))
	want := map[string]string{
		RegistriesConfPath: `unqualified-search-registries = ["registry.access.redhat.com", "docker.io"]
short-name-mode = ""
additional-layer-store-auth-helper = ""

[[registry]]
  prefix = ""
  location = "quay.io"
  blocked = true

  [[registry.mirror]]
    location = "m.local"
    pull-from-mirror = "tag-only"

[[registry]]
  prefix = ""
  location = "block.com/a/b/c"
  blocked = true

[[registry]]
  prefix = ""
  location = "quay.io/x"
  insecure = true

  [[registry.mirror]]
    location = "m.local/x"
    pull-from-mirror = "tag-only"
`,
		SearchDropInPath: "unqualified-search-registries = [\"a.io\"]\nshort-name-mode = \"\"\nadditional-layer-store-auth-helper = \"\"\n",
		policyfile.PolicyJSONPath: `{
  "default": [
    {
      "type": "insecureAcceptAnything"
    }
  ],
  "transports": {
    "atomic": {},
    "docker": {
      "block.com/a/b/c": [
        {
          "type": "reject"
        }
      ]
    },
    "docker-daemon": {
      "": [
        {
          "type": "insecureAcceptAnything"
        }
      ]
    }
  }
}`,
	}
	files, err := Rendered(s)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range want {
		if got := string(files[path]); got != text {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, text)
		}
	}
}

// TestRenderedDemands: a policy.json differs if and only if what it demands does.
func TestRenderedDemands(t *testing.T) {
	demanding := func(o Object, email string) Object {
		policy := configv1.ImageSigstoreVerificationPolicy{RootOfTrust: configv1.PolicyRootOfTrust{
			PolicyType: configv1.FulcioCAWithRekorRootOfTrust,
			FulcioCAWithRekor: &configv1.ImagePolicyFulcioCAWithRekorRootOfTrust{
				FulcioCAData: []byte("ca"), RekorKeyData: []byte("key"),
				FulcioSubject: configv1.PolicyFulcioSubject{OIDCIssuer: "https://issuer.example.com", SignedEmail: email},
			},
		}}
		switch o := o.(type) {
		case *configv1.ClusterImagePolicy:
			o.Spec.Policy = policy
		case *configv1.ImagePolicy:
			o.Spec.Policy = policy
		}
		return o
	}
	file := func(path string, objects ...Object) string {
		files, err := Rendered(put(Set{Registries: configv1.RegistrySources{AllowedRegistries: []string{"a.io", "b.io"}}}, objects...))
		if err != nil {
			t.Fatal(err)
		}
		return string(files[path])
	}
	const ofShop = "/etc/crio/policies/shop.json"
	a, b := file(policyfile.PolicyJSONPath, demanding(clusterPolicy("c", "a.io"), "a@b.c")), file(policyfile.PolicyJSONPath, demanding(clusterPolicy("c", "a.io"), "x@b.c"))
	if a == b || strings.Count(a, "insecureAcceptAnything") != 3 { // b.io twice, and the daemon
		t.Errorf("got\n%s\nand\n%s", a, b)
	}
	a, b = file(ofShop, demanding(imagePolicy("shop", "n", "a.io/x"), "a@b.c")), file(ofShop, demanding(imagePolicy("shop", "n", "a.io/x"), "x@b.c"))
	if a == b || a == "" || !strings.Contains(a, `"a.io": [`) { // the lists hold in namespaces too
		t.Errorf("got\n%s\nand\n%s", a, b)
	}
	if one, two := demanding(clusterPolicy("c", "a.io"), "a@b.c"), demanding(clusterPolicy("d", "a.io"), "x@b.c"); file(policyfile.PolicyJSONPath, one, two) != file(policyfile.PolicyJSONPath, two, one) {
		t.Error("the order of objects counts")
	}
}

// TestRenderedFiles: what other MachineConfigs lay beside and over the files of a pool.
func TestRenderedFiles(t *testing.T) {
	const dropIn = "/etc/containers/registries.conf.d/50-lab.conf"
	s := Set{Files: []File{
		{MachineConfig: "50-lab", Role: "worker", Path: dropIn, Contents: []byte("lab")},
		{MachineConfig: "50-lab", Role: "worker", Path: RegistriesConfPath, Contents: []byte("own")},
		{MachineConfig: "50-gpu", Role: "gpu", Path: dropIn, Contents: []byte("gpu")},
	}}
	mirrored := put(s, idms("a", "quay.io", "", "m.local"))
	conf := func(s Set, pool, path string) string {
		files, err := Rendered(s.At(pool))
		if err != nil {
			t.Fatal(err)
		}
		return string(files[path])
	}
	for _, tt := range []struct{ got, want, why string }{
		{conf(s, "", dropIn), "lab", "no pool is worker"},
		{conf(s, "infra", dropIn), "lab", "custom pools have what workers have"},
		{conf(s, "gpu", dropIn), "lab", "of two MachineConfigs the last by name counts"},
		{conf(s, "master", dropIn), "", "masters have not"},
		{conf(s, "worker", RegistriesConfPath), "own", "over the template's"},
		{conf(s, "master", RegistriesConfPath), baseRegistriesConf, "the template's"},
		{conf(mirrored, "worker", RegistriesConfPath), conf(mirrored, "master", RegistriesConfPath), "under the generated one"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.why, tt.got, tt.want)
		}
	}
}

func TestRenderedApplied(t *testing.T) {
	s := Set{Applied: &Applied{Files: map[string][]byte{RegistriesConfPath: []byte("applied")}}}
	files := RenderedApplied(s)
	if string(files[RegistriesConfPath]) != "applied" || string(files[policyfile.PolicyJSONPath]) != policyfile.BaseJSON || len(files) != 2 {
		t.Errorf("got %q", files)
	}
}
