package inspect

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	imagename "github.com/google/go-containerregistry/pkg/name"
	fakeregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
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
	}{
		{"no entry", emptyImage, "", []string{"quay.io/shop/cart:v1"}},
		{"a drop-in of a MachineConfig", labDropIn + shopTags, "", []string{"quay.io/team/x:1", "quay.io/shop/cart@" + clitest.TestDigest}},
		{"a drop-in that blocks its source", blockingDropIn, "", []string{"quay.io/team/x:1"}},
		{"a mirror, and one that is blocked", shopTags + registrySources, "", []string{"quay.io/shop/cart:v1"}},
		{"mirrors for the other pull type, several images", shopTags + tagSet("more", "quay.io/shop", "AllowContactingSource", "third.example.com"), "", []string{"quay.io/shop/cart@" + clitest.TestDigest, "quay.io/x"}},
		{"mirrors inherited by an entry of Image cluster", shopTags + registrySources, "", []string{"quay.io/shop/dev/x"}},
		{"an entry of Image cluster, and nothing left to try", registrySources, "", []string{"backup.example.com/x:1"}},
		{"blocked for two reasons, the list naming something wider", tagSet("team", "quay.io/team", "NeverContactSource", "m.local") + registrySources[:strings.Index(registrySources, "    blocked")] + "    blockedRegistries: [quay.io]\n", "", []string{"quay.io/team/x:1"}},
		{"a short name", tagSet("hub", "docker.io/library", "AllowContactingSource", "m.local"), "", []string{"nginx"}},
		{"a rewrite error", tagSet("a", "reg.local", "AllowContactingSource", "m.local:8443"), "", []string{"reg.local:5000/x:1"}},
		{"a short name of which one candidate is a rewrite error", tagSet("hub", "docker.io/library/nginx", "AllowContactingSource", "m.local"), "", []string{"nginx:1"}},
		{"a change", emptyImage, tagSet("team", "quay.io/team", "NeverContactSource", "m.local/team"), []string{"quay.io/team/app:v1"}},
		{"a change of long names", releaseDigests, tagSet("everything", releaseRepo, "NeverContactSource", "m.local"), []string{releaseRepo + "@" + clitest.TestDigest}},
		{"a change of something else", emptyImage, tagSet("team", "quay.io/team", "AllowContactingSource", "m.local/team"), []string{"quay.io/x:1"}},
		{"a delete", shopTags, shopTags, []string{"--delete", "quay.io/shop/a:1"}},
	}
	same := golden.Archive(t, "testdata/explain.txtar")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"explain", "--from", clitest.Written(t, "dump.yaml", tt.force)}, tt.args...)
			if tt.change != "" {
				args = append(args, "-f", clitest.Written(t, "change.yaml", tt.change))
			}
			got := invoke(t, "", args...)
			same(t, tt.name, got.String())
			assertWidth(t, got.Out)
		})
	}
}

func assertWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 {
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
			"several", emptyImage,
			[]string{"quay.io/a@sha256:123", "a b"},
			`image "quay.io/a@sha256:123": invalid reference format; image "a b" at search registry "registry.access.redhat.com": invalid reference format`,
		},
		{
			"a configuration that MCO rejects", tagSet("a", "quay.io", "NeverContactSource", "m.local") + tagSet("b", "quay.io", "AllowContactingSource", "m.local"),
			[]string{"quay.io/x"},
			`RejectedByMCO: the configuration in force is invalid, and no node would get it: source "quay.io" is NeverContactSource in ImageTagMirrorSet a but AllowContactingSource in ImageTagMirrorSet b`,
		},
		{"a format that does not exist", emptyImage, []string{"quay.io/x", "-o", "xml"}, `--output "xml": choose one of table, json, yaml`},
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
	golden.File(t, "testdata/explanation.json", got.String())
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
	golden.File(t, "testdata/explain-probe.txt", got.String())
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

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
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
