package inspect

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

const teamDigests = `
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: team}
spec:
  imageDigestMirrors:
  - {source: quay.io/team, mirrors: [m.local/team]}
`

// What nodes get of teamDigests, and without any objects.
const (
	teamConf = `unqualified-search-registries = ["registry.access.redhat.com", "docker.io"]
short-name-mode = ""
additional-layer-store-auth-helper = ""

[[registry]]
  prefix = ""
  location = "quay.io/team"

  [[registry.mirror]]
    location = "m.local/team"
    pull-from-mirror = "digest-only"
`
	emptyConf = `unqualified-search-registries = ["registry.access.redhat.com", "docker.io"]
short-name-mode = ""
additional-layer-store-auth-helper = ""
`
)

// dataURL is what MCO writes today.
func dataURL(text string) string {
	return "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(text))
}

// workerConfig is a MachineConfig with files, as YAML: path, source and
// compression of each.
func workerConfig(files ...[3]string) string {
	text := `
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 99-worker-generated-registries}
spec:
  config:
    ignition: {version: 3.5.0}
    storage:
      files:
      - {path: /etc/containers/policy.json, contents: {source: "data:,%7B%22default%22%3A%5B%7B%22type%22%3A%22insecureAcceptAnything%22%7D%5D%7D"}}
`
	for _, f := range files {
		text += fmt.Sprintf("      - {path: %q, overwrite: true, contents: {source: %q, compression: %q}}\n", f[0], f[1], f[2])
	}
	return text
}

func registriesFile(text string) [3]string {
	return [3]string{mirrors.RegistriesConfPath, dataURL(text), ""}
}

func TestRender(t *testing.T) {
	toTags := tagSet("team", "quay.io/team", "AllowContactingSource", "m.local/team")
	search := `
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec:
  registrySources:
    containerRuntimeSearchRegistries: [quay.io]
`
	tests := []struct {
		name   string
		force  string
		change string
		args   []string
	}{
		{"in force", teamDigests, "", nil},
		{"no objects", emptyImage, "", nil},
		{"after a change", emptyImage, teamDigests, nil},
		{"after a delete", teamDigests, teamDigests, []string{"--delete"}},
		{"the difference", teamDigests, toTags, []string{"-o", "diff"}},
		{"no difference", teamDigests, teamDigests, []string{"-o", "diff"}},
		{"a wildcard is the prefix", registrySources[:strings.Index(registrySources, "    blocked")] + "    blockedRegistries: ['*.example.com']\n", "", nil},
		{"search registries", search, "", nil},
		{"a change that MCO rejects", teamDigests, tagSet("bad", "quay.io/team", "NeverContactSource", "m.local"), nil},
		{"objects in force that MCO rejects", teamDigests + tagSet("bad", "quay.io/team", "NeverContactSource", "m.local"), "", nil},
		{"a change that repairs them", teamDigests + tagSet("bad", "quay.io/team", "NeverContactSource", "m.local"), tagSet("bad", "quay.io/team", "NeverContactSource", "m.local"), []string{"--delete"}},
		{"a policy that MCO rejects", "apiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {registrySources: {allowedRegistries: [allowed.io/namespace1/namespace2]}}\n", "apiVersion: config.openshift.io/v1\nkind: ImagePolicy\nmetadata: {name: signed, namespace: shop}\nspec: {scopes: [allowed.io/app/policysigned], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KQUEKLS0tLS1FTkQgUFVCTElDIEtFWS0tLS0t}}}}\n", nil},
		{"a format that does not exist", emptyImage, "", []string{"-o", "table"}},
	}
	same := golden.Archive(t, "testdata/render.txtar")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"render", "--from", clitest.Written(t, "dump.yaml", tt.force)}, tt.args...)
			if tt.change != "" {
				args = append(args, "-f", clitest.Written(t, "change.yaml", tt.change))
			}
			same(t, tt.name, invoke(t, "", args...).String())
		})
	}
}

// TestRenderApplied: what render says of the MachineConfig. What differs, and what cannot be read, is shown by the tests of packages mirrors and objects.
func TestRenderApplied(t *testing.T) {
	broken, many := workerConfig([3]string{mirrors.RegistriesConfPath, "data:,x", "xz"}), emptyConf
	for i := range 8 {
		many += fmt.Sprintf("[[registry]]\nlocation = \"r%d.local\"\nblocked = true\n", i)
	}
	same := golden.Archive(t, "testdata/render-applied.txtar")
	for _, tt := range []struct{ name, dump string }{
		{"applied", teamDigests + workerConfig(registriesFile(teamConf))},
		{"not read", teamDigests + broken},
		{"only spoken", teamDigests + "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {about: MachineConfig 99-worker-generated-registries}\n"},
		{"a blocked registry is left out", registrySources + workerConfig(registriesFile(emptyConf+"[[registry]]\nlocation = \"quay.io/shop/dev\"\ninsecure = true\n"))},
		{"many", emptyImage + workerConfig(registriesFile(many))},
	} {
		got := invoke(t, "", "render", "--from", clitest.Written(t, "dump.yaml", tt.dump))
		same(t, tt.name, clitest.Outcome{Err: got.Err, Code: got.Code}.String())
	}
}

// TestRenderJSON holds the JSON to its contract.
func TestRenderJSON(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", emptyImage+workerConfig(registriesFile(teamConf)))
	got := invoke(t, "", "render", "--from", dump, "-f", clitest.Written(t, "change.yaml", teamDigests), "-o", "json")
	golden.File(t, "testdata/rendering.json", got.String())
}
