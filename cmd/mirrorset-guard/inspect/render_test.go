package inspect

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
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

// What render says on standard error.
const (
	saysApplied = "MachineConfig 99-worker-generated-registries matches the objects in force: the Machine Config Operator has applied them.\n"
	saysNone    = "Whether the Machine Config Operator has applied the objects in force is not known: the dump has no MachineConfig 99-worker-generated-registries.\n"
	saysAdvice  = `The Machine Config Operator is still at work, or stuck. Nodes keep what the
MachineConfig says. To find out why:
  oc -n openshift-machine-config-operator logs deploy/machine-config-controller
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
	diff := `--- registries.conf in force
+++ registries.conf after the change
@@ -9,3 +9,7 @@
   [[registry.mirror]]
     location = "m.local/team"
     pull-from-mirror = "digest-only"
+
+  [[registry.mirror]]
+    location = "m.local/team"
+    pull-from-mirror = "tag-only"
`
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
		want   clitest.Outcome
	}{
		{"in force", teamDigests, "", nil, outcome(teamConf, saysNone, 0)},
		{"no objects", emptyImage, "", nil, outcome(emptyConf, saysNone, 0)},
		{"after a change", emptyImage, teamDigests, nil, outcome(teamConf, saysNone, 0)},
		{"after a delete", teamDigests, teamDigests, []string{"--delete"}, outcome(emptyConf, saysNone, 0)},
		{"the difference", teamDigests, toTags, []string{"-o", "diff"}, outcome(diff, saysNone, 0)},
		{"no difference", teamDigests, teamDigests, []string{"-o", "diff"}, outcome("", saysNone, 0)},
		{"a wildcard is the prefix", registrySources[:strings.Index(registrySources, "    blocked")] + "    blockedRegistries: ['*.example.com']\n", "", nil, outcome(emptyConf+`
[[registry]]
  prefix = "*.example.com"
  blocked = true
`, saysNone, 0)},
		{"search registries", search, "", nil, outcome(`# On nodes, this list of search registries stands in
# /etc/containers/registries.conf.d/01-image-searchRegistries.conf.
unqualified-search-registries = ["quay.io"]
short-name-mode = ""
additional-layer-store-auth-helper = ""
`, saysNone, 0)},
		{"a change that MCO rejects", teamDigests, tagSet("bad", "quay.io/team", "NeverContactSource", "m.local"), nil, outcome("", `mirrorset-guard: RejectedByMCO: the configuration after the change is invalid, and no node would get it: source "quay.io/team" is NeverContactSource in ImageTagMirrorSet bad but AllowContactingSource in ImageDigestMirrorSet team
`, cli.ExitTrouble)},
		{"objects in force that MCO rejects", teamDigests + tagSet("bad", "quay.io/team", "NeverContactSource", "m.local"), "", nil, outcome("", `mirrorset-guard: RejectedByMCO: the configuration in force is invalid, and no node would get it: source "quay.io/team" is NeverContactSource in ImageTagMirrorSet bad but AllowContactingSource in ImageDigestMirrorSet team
`, cli.ExitTrouble)},
		{"a change that repairs them", teamDigests + tagSet("bad", "quay.io/team", "NeverContactSource", "m.local"), tagSet("bad", "quay.io/team", "NeverContactSource", "m.local"), []string{"--delete"}, outcome(teamConf, `The Machine Config Operator is stuck, and will stay so until the objects are repaired.
RejectedByMCO: the configuration in force is invalid, and no node would get it: source "quay.io/team" is NeverContactSource in ImageTagMirrorSet bad but AllowContactingSource in ImageDigestMirrorSet team
`, 0)},
		{"a policy that MCO rejects", "apiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {registrySources: {allowedRegistries: [allowed.io/namespace1/namespace2]}}\n", "apiVersion: config.openshift.io/v1\nkind: ImagePolicy\nmetadata: {name: signed, namespace: shop}\nspec: {scopes: [allowed.io/app/policysigned], policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KQUEKLS0tLS1FTkQgUFVCTElDIEtFWS0tLS0t}}}}\n", nil, outcome("", `mirrorset-guard: RejectedByMCO: the configuration after the change is invalid, and no node would get it: scope "allowed.io/app/policysigned" of ImagePolicy shop/signed is outside allowedRegistries of Image cluster (allowed.io/namespace1/namespace2)
`, cli.ExitTrouble)},
		{"a format that does not exist", emptyImage, "", []string{"-o", "table"}, outcome("", "mirrorset-guard: --output \"table\": choose one of toml, diff, files, json, yaml\n", cli.ExitTrouble)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"render", "--from", clitest.Written(t, "dump.yaml", tt.force)}, tt.args...)
			if tt.change != "" {
				args = append(args, "-f", clitest.Written(t, "change.yaml", tt.change))
			}
			if diff := cmp.Diff(tt.want, invoke(t, "", args...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestRenderApplied: what render says of the MachineConfig. What differs, and what cannot be read, is shown by the tests of packages mirrors and objects.
func TestRenderApplied(t *testing.T) {
	broken := workerConfig([3]string{mirrors.RegistriesConfPath, "data:,x", "xz"})
	for name, tt := range map[string]struct{ dump, want string }{
		"applied":     {teamDigests + workerConfig(registriesFile(teamConf)), saysApplied},
		"not read":    {teamDigests + broken, "Whether the Machine Config Operator has applied the objects in force is not known: reading MachineConfig 99-worker-generated-registries: /etc/containers/registries.conf: its compression \"xz\" is unknown.\n"},
		"only spoken": {teamDigests + "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {about: MachineConfig 99-worker-generated-registries}\n", saysNone},
		"a blocked registry is left out": {registrySources + workerConfig(registriesFile(emptyConf+"[[registry]]\nlocation = \"quay.io/shop/dev\"\ninsecure = true\n")), `MachineConfig 99-worker-generated-registries does not match the objects in force:
- backup.example.com
    objects:       blocked
    MachineConfig: (no entry)
- /etc/containers/policy.json: backup.example.com
    objects:       refused
    MachineConfig: (no entry)
A blocked registry that holds the release image and has no mirror is left out on
purpose; which image that is, is not known here.
` + saysAdvice},
		"many": {emptyImage + workerConfig(registriesFile(manyEntries(8))), `MachineConfig 99-worker-generated-registries does not match the objects in force:
` + strings.Join(sixBlocked(), "") + "- and 2 more\n" + saysAdvice},
	} {
		got := invoke(t, "", "render", "--from", clitest.Written(t, "dump.yaml", tt.dump))
		if diff := cmp.Diff(tt.want, got.Err); diff != "" || got.Code != cli.ExitAdmitted {
			t.Errorf("%s: exit %d, standard error (-want +got):\n%s", name, got.Code, diff)
		}
	}
}

func manyEntries(n int) string {
	text := emptyConf
	for i := range n {
		text += fmt.Sprintf("[[registry]]\nlocation = \"r%d.local\"\nblocked = true\n", i)
	}
	return text
}

// sixBlocked are the differences of manyEntries that are told.
func sixBlocked() (all []string) {
	for i := range 6 {
		all = append(all, fmt.Sprintf("- r%d.local\n    objects:       (no entry)\n    MachineConfig: blocked\n", i))
	}
	return all
}

// TestRenderJSON holds the JSON to its contract.
func TestRenderJSON(t *testing.T) {
	dump := clitest.Written(t, "dump.yaml", emptyImage+workerConfig(registriesFile(teamConf)))
	got := invoke(t, "", "render", "--from", dump, "-f", clitest.Written(t, "change.yaml", teamDigests), "-o", "json")
	want := `{
  "apiVersion": "mirrorset-guard.io/v1alpha1",
  "kind": "Rendering",
  "before": "unqualified-search-registries = [\"registry.access.redhat.com\", \"docker.io\"]\nshort-name-mode = \"\"\nadditional-layer-store-auth-helper = \"\"\n",
  "after": "unqualified-search-registries = [\"registry.access.redhat.com\", \"docker.io\"]\nshort-name-mode = \"\"\nadditional-layer-store-auth-helper = \"\"\n\n[[registry]]\n  prefix = \"\"\n  location = \"quay.io/team\"\n\n  [[registry.mirror]]\n    location = \"m.local/team\"\n    pull-from-mirror = \"digest-only\"\n",
  "diff": "--- registries.conf in force\n+++ registries.conf after the change\n@@ -1,3 +1,11 @@\n unqualified-search-registries = [\"registry.access.redhat.com\", \"docker.io\"]\n short-name-mode = \"\"\n additional-layer-store-auth-helper = \"\"\n+\n+[[registry]]\n+  prefix = \"\"\n+  location = \"quay.io/team\"\n+\n+  [[registry.mirror]]\n+    location = \"m.local/team\"\n+    pull-from-mirror = \"digest-only\"\n",
  "files": [
    {
      "path": "/etc/containers/policy.json",
      "before": "{\n    \"default\": [\n        {\n            \"type\": \"insecureAcceptAnything\"\n        }\n    ],\n    \"transports\":\n        {\n            \"docker-daemon\":\n                {\n                    \"\": [{\"type\":\"insecureAcceptAnything\"}]\n                }\n        }\n}\n",
      "after": "{\n    \"default\": [\n        {\n            \"type\": \"insecureAcceptAnything\"\n        }\n    ],\n    \"transports\":\n        {\n            \"docker-daemon\":\n                {\n                    \"\": [{\"type\":\"insecureAcceptAnything\"}]\n                }\n        }\n}\n",
      "diff": ""
    }
  ],
  "machineConfig": {
    "name": "99-worker-generated-registries",
    "state": "differs",
    "detail": "",
    "differences": [
      {
        "scope": "quay.io/team",
        "objects": "",
        "machineConfig": "mirror m.local/team (digests)"
      }
    ]
  }
}
`
	if diff := cmp.Diff(clitest.Outcome{Out: want}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
