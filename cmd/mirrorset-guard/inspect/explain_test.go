package inspect

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	imagename "github.com/google/go-containerregistry/pkg/name"
	fakeregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"github.com/openshift/runtime-utils/pkg/registries"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/crd"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

const (
	releaseRepo = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
)

// Objects in force, as an operator writes them.
const (
	emptyImage = `
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
`
	shopTags = `
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: shop}
spec:
  imageTagMirrors:
  - source: quay.io/shop
    mirrors: [mirror.example.com/shop, backup.example.com/shop]
`
	releaseDigests = `
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: release}
spec:
  imageDigestMirrors:
  - source: quay.io/openshift-release-dev
    mirrors: [mirror.example.com:8443/ocp]
`
	registrySources = `
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec:
  registrySources:
    blockedRegistries: [backup.example.com]
    insecureRegistries: [quay.io/shop/dev]
`
)

func tagSet(name, source, policy string, mirrors ...string) string {
	return fmt.Sprintf(`
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: %s}
spec:
  imageTagMirrors:
  - {source: %q, mirrors: [%s], mirrorSourcePolicy: %s}
`, name, source, strings.Join(mirrors, ", "), policy)
}

// labDropIn is a MachineConfig with a file of its own for the nodes of one pool.
const labDropIn = `
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 50-lab, labels: {machineconfiguration.openshift.io/role: worker}}
spec:
  config:
    storage:
      files:
      - path: /etc/containers/registries.conf.d/50-lab.conf
        contents: {source: "data:,%5B%5Bregistry%5D%5D%0Alocation%20%3D%20%22quay.io%22%0A%5B%5Bregistry.mirror%5D%5D%0Alocation%20%3D%20%22lab.example.com%22"}
`

// blockingDropIn is labDropIn with a block of its source.
var blockingDropIn = strings.Replace(labDropIn, "%0A%5B%5Bregistry.mirror", "%0Ablocked%20%3D%20true%0A%5B%5Bregistry.mirror", 1)

// TestExplainTable is the specification of the table: each row is one thing that
// it can say.
func TestExplainTable(t *testing.T) {
	tests := []struct {
		name   string
		force  string // the dump
		change string // -f, unless empty
		args   []string
		want   string
	}{
		{"no entry", emptyImage, "", []string{"quay.io/shop/cart:v1"}, `
quay.io/shop/cart:v1
  no entry of registries.conf covers it
  1. quay.io/shop/cart:v1
     source, tried
`},
		{"a drop-in of a MachineConfig", labDropIn + shopTags, "", []string{"quay.io/team/x:1", "quay.io/shop/cart@" + clitest.TestDigest}, `
quay.io/team/x:1
  entry quay.io, made by a file of MachineConfig 50-lab
  1. lab.example.com/team/x:1
     mirror, tried
  2. quay.io/team/x:1
     source, tried

quay.io/shop/cart@sha256:aaaaaaaaaaaa
  entry quay.io/shop, made by ImageTagMirrorSet shop
  -  mirror.example.com/shop/cart@sha256:aaaaaaaaaaaa
     mirror, skipped: serves tags only
  -  backup.example.com/shop/cart@sha256:aaaaaaaaaaaa
     mirror, skipped: serves tags only
  1. quay.io/shop/cart@sha256:aaaaaaaaaaaa
     source, tried

Note: these are the routes of nodes of worker; MachineConfigs put other files on those of master
`},
		{"a drop-in that blocks its source", blockingDropIn, "", []string{"quay.io/team/x:1"}, `
quay.io/team/x:1
  entry quay.io, made by a file of MachineConfig 50-lab
  1. lab.example.com/team/x:1
     mirror, tried
  2. quay.io/team/x:1
     source, blocked by the entry quay.io (a file of MachineConfig 50-lab)

Note: these are the routes of nodes of worker; MachineConfigs put other files on those of master
`},
		{"a mirror, and one that is blocked", shopTags + registrySources, "", []string{"quay.io/shop/cart:v1"}, `
quay.io/shop/cart:v1
  entry quay.io/shop, made by ImageTagMirrorSet shop
  1. mirror.example.com/shop/cart:v1
     mirror, tried
  2. backup.example.com/shop/cart:v1
     mirror, blocked by the entry backup.example.com (blockedRegistries of Image cluster)
  3. quay.io/shop/cart:v1
     source, tried
`},
		{"mirrors for the other pull type, several images", shopTags + tagSet("more", "quay.io/shop", "AllowContactingSource", "third.example.com"), "", []string{"quay.io/shop/cart@" + clitest.TestDigest, "quay.io/x"}, `
quay.io/shop/cart@sha256:aaaaaaaaaaaa
  entry quay.io/shop, made by ImageTagMirrorSet more, ImageTagMirrorSet shop
  -  mirror.example.com/shop/cart@sha256:aaaaaaaaaaaa
     mirror, skipped: serves tags only
  -  third.example.com/cart@sha256:aaaaaaaaaaaa
     mirror, skipped: serves tags only
  -  backup.example.com/shop/cart@sha256:aaaaaaaaaaaa
     mirror, skipped: serves tags only
  1. quay.io/shop/cart@sha256:aaaaaaaaaaaa
     source, tried

quay.io/x
  no entry of registries.conf covers it
  1. quay.io/x:latest
     source, tried
`},
		{"mirrors inherited by an entry of Image cluster", shopTags + registrySources, "", []string{"quay.io/shop/dev/x"}, `
quay.io/shop/dev/x
  entry quay.io/shop/dev, made by insecureRegistries of Image cluster; mirrors inherited from
    quay.io/shop, made by ImageTagMirrorSet shop
  1. mirror.example.com/shop/dev/x:latest
     mirror, tried
  2. backup.example.com/shop/dev/x:latest
     mirror, blocked by the entry backup.example.com (blockedRegistries of Image cluster)
  3. quay.io/shop/dev/x:latest
     source, tried without verifying certificates (insecureRegistries of Image cluster)
`},
		{"an entry of Image cluster, and nothing left to try", registrySources, "", []string{"backup.example.com/x:1"}, `
backup.example.com/x:1
  entry backup.example.com, made by blockedRegistries of Image cluster
  1. backup.example.com/x:1
     source, blocked by the entry backup.example.com (blockedRegistries of Image cluster)
  nodes refuse it wherever it comes from: blockedRegistries of Image cluster names
    backup.example.com
`},
		{"blocked for two reasons, the list naming something wider", tagSet("team", "quay.io/team", "NeverContactSource", "m.local") + registrySources[:strings.Index(registrySources, "    blocked")] + "    blockedRegistries: [quay.io]\n", "", []string{"quay.io/team/x:1"}, `
quay.io/team/x:1
  entry quay.io/team, made by ImageTagMirrorSet team
  1. m.local/x:1
     mirror, tried
  2. quay.io/team/x:1
     source, blocked by the entry quay.io/team (NeverContactSource in ImageTagMirrorSet team;
       quay.io in blockedRegistries of Image cluster)
  nodes refuse it wherever it comes from: blockedRegistries of Image cluster names quay.io
`},
		{"a short name", tagSet("hub", "docker.io/library", "AllowContactingSource", "m.local"), "", []string{"nginx"}, `
nginx
  a short name: the 2 search registries are tried in turn
  registry.access.redhat.com/nginx:latest: no entry of registries.conf covers it
  1. registry.access.redhat.com/nginx:latest
     source, tried
  docker.io/library/nginx:latest: entry docker.io/library, made by ImageTagMirrorSet hub
  2. m.local/nginx:latest
     mirror, tried
  3. docker.io/library/nginx:latest
     source, tried
`},
		{"a rewrite error", tagSet("a", "reg.local", "AllowContactingSource", "m.local:8443"), "", []string{"reg.local:5000/x:1"}, `
reg.local:5000/x:1
  entry reg.local, made by ImageTagMirrorSet a
  the pull fails before anything is asked: mirror "m.local:8443" would make it
    "m.local:8443:5000/x:1": rewriting reference: invalid reference format
`},
		{"a short name of which one candidate is a rewrite error", tagSet("hub", "docker.io/library/nginx", "AllowContactingSource", "m.local"), "", []string{"nginx:1"}, `
nginx:1
  a short name: the 2 search registries are tried in turn
  registry.access.redhat.com/nginx:1: no entry of registries.conf covers it
  1. registry.access.redhat.com/nginx:1
     source, tried
  docker.io/library/nginx:1: entry docker.io/library/nginx, made by ImageTagMirrorSet hub
  the pull fails before anything is asked: mirror "m.local" would make it "m.local:1": rewriting
    reference: repository name must be canonical
`},
		{"a change, side by side", emptyImage, tagSet("team", "quay.io/team", "NeverContactSource", "m.local/team"), []string{"quay.io/team/app:v1"}, `
quay.io/team/app:v1
  before the change                                 after the change
  no entry of registries.conf covers it             entry quay.io/team, made by ImageTagMirrorSet
                                                      team
  1. quay.io/team/app:v1                            1. m.local/team/app:v1
     source, tried                                     mirror, tried
                                                    2. quay.io/team/app:v1
                                                       source, blocked by the entry quay.io/team
                                                         (NeverContactSource in ImageTagMirrorSet
                                                         team)
`},
		{"a change, too wide for columns", releaseDigests, tagSet("everything", releaseRepo, "NeverContactSource", "m.local"), []string{releaseRepo + "@" + clitest.TestDigest}, `
quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:aaaaaaaaaaaa
  before the change:
    entry quay.io/openshift-release-dev, made by ImageDigestMirrorSet release
    1. mirror.example.com:8443/ocp/ocp-v4.0-art-dev@sha256:aaaaaaaaaaaa
       mirror, tried
    2. quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:aaaaaaaaaaaa
       source, tried
  after the change:
    entry quay.io/openshift-release-dev/ocp-v4.0-art-dev, made by ImageTagMirrorSet everything
    -  m.local
       mirror, skipped: serves tags only
    1. quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:aaaaaaaaaaaa
       source, blocked by the entry quay.io/openshift-release-dev/ocp-v4.0-art-dev
         (NeverContactSource in ImageTagMirrorSet everything)
    nothing is left to try: it cannot be pulled
`},
		{"a change of something else", emptyImage, tagSet("team", "quay.io/team", "AllowContactingSource", "m.local/team"), []string{"quay.io/x:1"}, `
quay.io/x:1
  the same before and after the change:
    no entry of registries.conf covers it
    1. quay.io/x:1
       source, tried
`},
		{"a delete", shopTags, shopTags, []string{"--delete", "quay.io/shop/a:1"}, `
quay.io/shop/a:1
  before the change                                 after the change
  entry quay.io/shop, made by ImageTagMirrorSet     no entry of registries.conf covers it
    shop
  1. mirror.example.com/shop/a:1                    1. quay.io/shop/a:1
     mirror, tried                                     source, tried
  2. backup.example.com/shop/a:1
     mirror, tried
  3. quay.io/shop/a:1
     source, tried
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"explain", "--from", clitest.Written(t, "dump.yaml", tt.force)}, tt.args...)
			if tt.change != "" {
				args = append(args, "-f", clitest.Written(t, "change.yaml", tt.change))
			}
			got := invoke(t, "", args...)
			want := clitest.Outcome{Out: strings.TrimPrefix(tt.want, "\n")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			assertWidth(t, got.Out)
		})
	}
}

func assertWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > cli.TableWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestExplainTrouble is what ends explain with exit code 2.
func TestExplainTrouble(t *testing.T) {
	tests := []struct {
		name string
		dump string
		args []string
		want string
	}{
		{
			"an image that is no reference, among good ones", emptyImage,
			[]string{"quay.io/ok", "quay.io/Upper"},
			`image "quay.io/Upper": invalid reference format: repository name must be lowercase`,
		},
		{
			"several", emptyImage,
			[]string{"quay.io/a@sha256:123", "a b"},
			`image "quay.io/a@sha256:123": invalid reference format; image "a b" at search registry "registry.access.redhat.com": invalid reference format`,
		},
		{
			"a configuration that MCO rejects", tagSet("a", "quay.io", "NeverContactSource", "m.local") + tagSet("b", "quay.io", "AllowContactingSource", "m.local"),
			[]string{"quay.io/x"},
			`RejectedByMCO: the configuration in force is invalid, and no node would get it: source "quay.io" is NeverContactSource in ImageTagMirrorSet a but AllowContactingSource in ImageTagMirrorSet b`,
		},
		{"a format that does not exist", emptyImage, []string{"quay.io/x", "-o", "xml"}, `--output "xml": choose one of table, json, yaml, html`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(t, "", append([]string{"explain", "--from", clitest.Written(t, "dump.yaml", tt.dump)}, tt.args...)...)
			if diff := cmp.Diff(clitest.Outcome{Err: "mirrorset-guard: " + tt.want + "\n", Code: cli.ExitTrouble}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestExplainJSON holds the JSON to its contract: it is read by programs.
func TestExplainJSON(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", shopTags+registrySources)
	change := clitest.Written(t, "change.yaml", tagSet("a", "quay.io/bad", "AllowContactingSource", "registry/x"))
	got := invoke(t, "", "explain", "--from", dump, "-f", change, "-o", "json", "quay.io/shop/dev:v1@"+clitest.TestDigest, "quay.io/bad/x")
	want := `{
  "apiVersion": "mirrorset-guard.io/v1alpha1",
  "kind": "Explanation",
  "images": [
    {
      "image": "quay.io/shop/dev:v1@` + clitest.TestDigest + `",
      "before": {
        "entry": "quay.io/shop/dev",
        "sources": [
          {
            "reference": "quay.io/shop/dev@` + clitest.TestDigest + `",
            "mirror": false,
            "blocked": false,
            "insecure": true
          }
        ],
        "error": ""
      },
      "after": {
        "entry": "quay.io/shop/dev",
        "sources": [
          {
            "reference": "quay.io/shop/dev@` + clitest.TestDigest + `",
            "mirror": false,
            "blocked": false,
            "insecure": true
          }
        ],
        "error": ""
      }
    },
    {
      "image": "quay.io/bad/x",
      "before": {
        "sources": [
          {
            "reference": "quay.io/bad/x:latest",
            "mirror": false,
            "blocked": false,
            "insecure": false
          }
        ],
        "error": ""
      },
      "after": {
        "entry": "quay.io/bad",
        "sources": [],
        "error": "mirror \"registry/x\" would make it \"registry/x/x:latest\": rewriting reference: repository name must be canonical"
      }
    }
  ]
}
`
	if diff := cmp.Diff(clitest.Outcome{Out: want}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestExplainProbe asks a registry what is there.
func TestExplainProbe(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(fakeregistry.New(fakeregistry.Logger(quiet)))
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "https://")
	push(t, server, address+"/shop/cart:v1")
	ca := clitest.Written(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	// example.com is in the certificate of httptest.
	set := tagSet("shop", "quay.example.com/shop", "NeverContactSource", "example.com/shop")
	got := invoke(t, "", "explain", "--probe", "--from", clitest.Written(t, "dump.yaml", set), "--registry-ca", ca,
		"--resolve", "example.com="+address, "--allow-loopback", "--pull-secret", clitest.Written(t, "auth.json", `{"auths":{"example.com":{"auth":"dTpw"}}}`),
		"quay.example.com/shop/cart:v1")
	want := `quay.example.com/shop/cart:v1
  entry quay.example.com/shop, made by ImageTagMirrorSet shop
  1. example.com/shop/cart:v1
     mirror, tried: present
  2. quay.example.com/shop/cart:v1
     source, blocked by the entry quay.example.com/shop (NeverContactSource in ImageTagMirrorSet
       shop)

Registries were asked from this machine; nodes may have other proxies, CAs and name servers.
`
	if diff := cmp.Diff(clitest.Outcome{Out: want}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRemark is what --probe adds, in the words of the facts.
func TestRemark(t *testing.T) {
	place := mirrors.Location{Ref: "m.local/x:1"}
	tests := []struct {
		fact policy.Fact
		want string
	}{
		{policy.Fact{Presence: policy.Present}, "source, tried: present"},
		{policy.Fact{Presence: policy.Absent, AsNodes: true, Detail: "m.local answers 404"}, "source, tried: absent: m.local answers 404"},
		{policy.Fact{Presence: policy.Mismatch, Detail: "it serves " + clitest.TestDigest}, "source, tried: mismatch: it serves sha256:aaaaaaaaaaaa"},
		{policy.Fact{}, "source, tried: unknown"},
	}
	for _, tt := range tests {
		e := explanation{&review.Explainer{Facts: policy.Facts{place: &tt.fact}}}
		if got := e.remark(mirrors.Resolution{}, mirrors.Step{PullSource: mirrors.PullSource{Location: place}}); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func push(t *testing.T, server *httptest.Server, ref string) {
	t.Helper()
	img, err := testregistries.Image("cart")
	if err != nil {
		t.Fatal(err)
	}
	tag, err := imagename.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img, remote.WithTransport(server.Client().Transport)); err != nil {
		t.Fatal(err)
	}
}

// The rest holds the command to sysregistriesv2, reading the file that MCO would
// have written, for random configurations before and after a change.

// random makes names that nest, collide and differ by a port or a wildcard, in
// objects that the API server and MCO accept more often than not.
type random struct{ *rand.Rand }

var (
	randomHosts = []string{"quay.io", "quay.io:443", "reg.local", "reg.local:5000", "a.b.example.com", "b.example.com", "example.com", "example.com:5000", "docker.io", "image-registry.svc:5000"}
	randomPaths = []string{"", "/team", "/team/app", "/team/app/deep", "/te", "/library", "/library/nginx"}
	randomTails = []string{"", ":v1", "@" + clitest.TestDigest, ":v1@" + clitest.TestDigest}
)

func oneOf[T any](r random, from []T) T { return from[r.IntN(len(from))] }

func (r random) scope() string {
	if r.IntN(10) == 0 {
		return oneOf(r, []string{"*.example.com", "*.b.example.com", "*.svc"})
	}
	return oneOf(r, randomHosts) + oneOf(r, randomPaths)
}

// policyOf gives a source the same policy everywhere, as MCO wants it.
func policyOf(source string) configv1.MirrorSourcePolicy {
	if len(source)%3 == 0 {
		return configv1.NeverContactSource
	}
	return configv1.AllowContactingSource
}

func (r random) mirrors() []configv1.ImageMirror {
	var out []configv1.ImageMirror
	for range r.IntN(4) {
		m := oneOf(r, []string{"m.local", "m.local:8443", "mirror", "other.local"}) + oneOf(r, []string{"", "/x", "/team"})
		out = append(out, configv1.ImageMirror(m))
	}
	return out
}

func (r random) object() mirrors.Object {
	name := fmt.Sprint("set-", r.IntN(3))
	if r.IntN(2) == 0 {
		o := &configv1.ImageTagMirrorSet{}
		o.APIVersion, o.Kind = mirrors.TagMirrorSetGVK.ToAPIVersionAndKind()
		for range 1 + r.IntN(3) {
			source := r.scope()
			o.Spec.ImageTagMirrors = append(o.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: source, Mirrors: r.mirrors(), MirrorSourcePolicy: policyOf(source)})
		}
		o.Name = name
		return o
	}
	o := &configv1.ImageDigestMirrorSet{}
	o.APIVersion, o.Kind = mirrors.DigestMirrorSetGVK.ToAPIVersionAndKind()
	for range 1 + r.IntN(3) {
		source := r.scope()
		o.Spec.ImageDigestMirrors = append(o.Spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: source, Mirrors: r.mirrors(), MirrorSourcePolicy: policyOf(source)})
	}
	o.Name = name
	return o
}

func (r random) imageConfig() *configv1.Image {
	o := &configv1.Image{}
	o.APIVersion, o.Kind = mirrors.ImageConfigGVK.ToAPIVersionAndKind()
	o.Name = "cluster"
	for _, list := range []*[]string{&o.Spec.RegistrySources.BlockedRegistries, &o.Spec.RegistrySources.InsecureRegistries} {
		for range r.IntN(3) {
			*list = append(*list, oneOf(r, []string{r.scope(), "m.local", "m.local/team", "other.local", "quay.io/team/"}))
		}
	}
	if r.IntN(8) == 0 {
		o.Spec.RegistrySources.ContainerRuntimeSearchRegistries = []string{"quay.io", "example.com:5000"}
	}
	return o
}

func (r random) image(s mirrors.Set) string {
	if r.IntN(12) == 0 {
		return oneOf(r, []string{"nginx", "library/nginx:1.27", "team/app@" + clitest.TestDigest})
	}
	scope := r.scope()
	if entries := s.Entries(); len(entries) > 0 && r.IntN(5) > 0 {
		scope = oneOf(r, entries).Source
	}
	scope = strings.Replace(scope, "*.", oneOf(r, []string{"x.", "x.y."}), 1)
	if !strings.Contains(scope, "/") {
		scope += oneOf(r, []string{"", ":5000"}) + oneOf(r, randomPaths[1:])
		scope = strings.Replace(strings.Replace(scope, ":443:", ":", 1), ":5000:", ":", 1)
	}
	return scope + oneOf(r, []string{"", "/app"}) + oneOf(r, randomTails)
}

// mcoFile is the registries.conf that MCO makes of s.
func mcoFile(t *testing.T, s mirrors.Set) string {
	t.Helper()
	var (
		tags    []*configv1.ImageTagMirrorSet
		digests []*configv1.ImageDigestMirrorSet
		legacy  []*operatorv1alpha1.ImageContentSourcePolicy
	)
	for _, o := range s.Objects {
		switch o := o.(type) {
		case *configv1.ImageTagMirrorSet:
			tags = append(tags, o)
		case *configv1.ImageDigestMirrorSet:
			digests = append(digests, o)
		}
	}
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: []string{"registry.access.redhat.com", "docker.io"}}
	if search := s.Registries.ContainerRuntimeSearchRegistries; len(search) > 0 {
		conf.UnqualifiedSearchRegistries = search
	}
	if err := registries.EditRegistriesConfig(&conf, s.Registries.InsecureRegistries, s.Registries.BlockedRegistries, legacy, digests, tags); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	if err := toml.NewEncoder(&file).Encode(conf); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func nodeReading(t *testing.T, registriesConf string) *types.SystemContext {
	t.Helper()
	path := clitest.Written(t, "registries.conf", registriesConf)
	sys := &types.SystemContext{SystemRegistriesConfPath: path, SystemRegistriesConfDirPath: path + ".none"}
	if _, err := sysregistriesv2.TryUpdatingCache(sys); err != nil {
		t.Fatal(err)
	}
	return sys
}

// nodeRoute is what a node does with image: short names try each search registry
// in turn, and a candidate that cannot be rewritten is passed over.
func nodeRoute(t *testing.T, sys *types.SystemContext, image string) []v1alpha1.Source {
	t.Helper()
	candidates := []string{image}
	if first, _, found := strings.Cut(image, "/"); !found || !strings.ContainsAny(first, ".:") {
		search, err := sysregistriesv2.UnqualifiedSearchRegistries(sys)
		if err != nil {
			t.Fatal(err)
		}
		candidates = nil
		for _, registry := range search {
			candidates = append(candidates, registry+"/"+image)
		}
	}
	all := []v1alpha1.Source{}
	for _, c := range candidates {
		ref, err := reference.ParseDockerRef(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, nodeSources(t, sys, ref)...)
	}
	return all
}

// nodeSources is what containers/image's docker transport does with a reference.
func nodeSources(t *testing.T, sys *types.SystemContext, ref reference.Named) []v1alpha1.Source {
	t.Helper()
	entry := findRegistry(t, sys, ref)
	if entry == nil {
		return []v1alpha1.Source{{Reference: ref.String()}}
	}
	pulls, err := entry.PullSourcesFromReference(ref)
	if err != nil {
		return nil
	}
	var sources []v1alpha1.Source
	for i, p := range pulls {
		covering := findRegistry(t, sys, p.Reference)
		sources = append(sources, v1alpha1.Source{
			Reference: p.Reference.String(), Mirror: i < len(pulls)-1,
			Blocked: covering != nil && covering.Blocked, Insecure: p.Endpoint.Insecure,
		})
	}
	return sources
}

func findRegistry(t *testing.T, sys *types.SystemContext, ref reference.Named) *sysregistriesv2.Registry {
	t.Helper()
	entry, err := sysregistriesv2.FindRegistry(sys, ref.Name())
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func TestExplainIsTheRuntimes(t *testing.T) {
	sets, routes, mirrored, rejected := campaign.Times(60, 300), 0, 0, 0
	for seed := range uint64(sets) {
		r := random{rand.New(rand.NewPCG(seed, 2))}
		before, after, dump, change := r.situation(t)
		if refusedByMCO(before) || refusedByMCO(after) {
			rejected++
			if got := invoke(t, "", "explain", "--from", dump, "-f", change, "quay.io/x"); got.Code != cli.ExitTrouble || !strings.Contains(got.Err, "RejectedByMCO") {
				t.Errorf("seed %d: %+v, want exit 2 and RejectedByMCO", seed, got)
			}
			continue
		}
		images := make([]string, 8)
		for i := range images {
			images[i] = r.image(after)
		}
		doc := explained(t, append([]string{"explain", "--from", dump, "-f", change, "-o", "json"}, images...))
		for _, side := range []struct {
			name  string
			set   mirrors.Set
			route func(v1alpha1.Explained) v1alpha1.Route
		}{
			{"before", before, func(e v1alpha1.Explained) v1alpha1.Route { return e.Before }},
			{"after", after, func(e v1alpha1.Explained) v1alpha1.Route { return e.After }},
		} {
			node := nodeReading(t, mcoFile(t, side.set))
			for i, image := range images {
				got, want := side.route(doc.Images[i]), nodeRoute(t, node, image)
				if diff := cmp.Diff(want, got.Sources, cmpopts.IgnoreFields(v1alpha1.Source{}, "Refused")); diff != "" || (got.Error == "") != (len(want) > 0) {
					t.Fatalf("seed %d, %s %s (-runtime +explain), error %q:\n%s", seed, image, side.name, got.Error, diff)
				}
				routes++
				if len(want) != 1 || want[0].Blocked || want[0].Insecure {
					mirrored++
				}
			}
		}
		table := invoke(t, "", append([]string{"explain", "--from", dump, "-f", change}, images...)...)
		if table.Code != cli.ExitAdmitted {
			t.Errorf("seed %d: %+v", seed, table)
		}
		assertWidth(t, table.Out)
	}
	t.Logf("%d sets, %d of them rejected by MCO; %d routes equal to the runtime's, %d of them not plainly the source", sets, rejected, routes, mirrored)
	if rejected > sets/2 || mirrored < routes/3 {
		t.Error("too few of the inputs were meaningful")
	}
}

// situation makes a dump and a change, and returns what they amount to.
func (r random) situation(t *testing.T) (before, after mirrors.Set, dump, change string) {
	var list struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Items      []any  `json:"items"`
	}
	list.APIVersion, list.Kind = "v1", "List"
	for i, o := range []mirrors.Object{r.imageConfig(), r.object(), r.object(), r.object()} {
		o.SetResourceVersion(strconv.Itoa(i + 1)) // of two of a name the later is newer
		before = mirrors.Put(o).Apply(before)
		list.Items = append(list.Items, o)
	}
	changed := r.object()
	for !isCreatable(t, changed) {
		changed = r.object()
	}
	return before, mirrors.Put(changed).Apply(before), clitest.Written(t, "dump.json", asJSON(t, list)), clitest.Written(t, "change.json", asJSON(t, changed))
}

// isCreatable reports whether an API server would take o.
func isCreatable(t *testing.T, o mirrors.Object) bool {
	gvk := o.(runtime.Object).GetObjectKind().GroupVersionKind()
	return len(crd.Validate(gvk, []byte(asJSON(t, o)), nil)) == 0
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func refusedByMCO(s mirrors.Set) bool {
	_, err := mirrors.Resolve(s)
	return err != nil
}

func explained(t *testing.T, args []string) v1alpha1.Explanation {
	t.Helper()
	got := invoke(t, "", args...)
	if got.Code != cli.ExitAdmitted || got.Err != "" {
		t.Fatalf("%q: %+v", args, got)
	}
	var doc v1alpha1.Explanation
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
