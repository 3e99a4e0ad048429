package inspect

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
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

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
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

// TestRenderApplied is the specification of what render says of the MachineConfig.
func TestRenderApplied(t *testing.T) {
	old := strings.Replace(strings.Replace(teamConf, `prefix = ""`, "prefix = \"\"\n  mirror-by-digest-only = true", 1), "    pull-from-mirror = \"digest-only\"\n", "", 1)
	unknown := func(why string) string {
		return "Whether the Machine Config Operator has applied the objects in force is not known: " + why + ".\n"
	}
	broken := "reading MachineConfig 99-worker-generated-registries: /etc/containers/registries.conf: "
	tests := []struct {
		name    string
		objects string
		config  string
		want    string
	}{
		{"base64, as MCO writes it", teamDigests, workerConfig(registriesFile(teamConf)), saysApplied},
		{"plain, as it used to", teamDigests, workerConfig([3]string{mirrors.RegistriesConfPath, "data:text/plain," + url.PathEscape(teamConf), ""}), saysApplied},
		{"compressed", teamDigests, workerConfig([3]string{mirrors.RegistriesConfPath, dataURL(zipped(t, teamConf)), "gzip"}), saysApplied},
		{"mirror-by-digest-only, as it used to", teamDigests, workerConfig(registriesFile(old)), saysApplied},
		{"no objects, no file", emptyImage, workerConfig(), saysApplied},
		{
			"search registries in their own file", strings.Replace(registrySources, "blockedRegistries: [backup.example.com]", "containerRuntimeSearchRegistries: [quay.io]", 1) + teamDigests,
			workerConfig(registriesFile(teamConf+"\n[[registry]]\nlocation = \"quay.io/shop/dev\"\ninsecure = true\n"), [3]string{mirrors.SearchDropInPath, dataURL("unqualified-search-registries = [\"quay.io\"]\n"), ""}),
			saysApplied,
		},
		{"an entry is missing, another is too many", teamDigests, workerConfig(registriesFile(strings.ReplaceAll(teamConf, "quay.io/team", "quay.io/old"))), `MachineConfig 99-worker-generated-registries does not match the objects in force:
- quay.io/old
    objects:       (no entry)
    MachineConfig: mirror m.local/team (digests)
- quay.io/team
    objects:       mirror m.local/team (digests)
    MachineConfig: (no entry)
` + saysAdvice},
		{"every word of an entry, and search registries", emptyImage, workerConfig(registriesFile(`unqualified-search-registries = ["quay.io"]
[[registry]]
  prefix = "a.local"
  location = "b.local"
  blocked = true
  insecure = true
  [[registry.mirror]]
    location = "m.local"
    insecure = true
    pull-from-mirror = "tag-only"
  [[registry.mirror]]
    location = "n.local"
[[registry]]
  location = "c.local"
`)), `MachineConfig 99-worker-generated-registries does not match the objects in force:
- a.local
    objects:       (no entry)
    MachineConfig: blocked, insecure, location b.local, mirror m.local (tags, insecure), mirror n.local (all pulls)
- c.local
    objects:       (no entry)
    MachineConfig: no setting
- unqualified-search-registries
    objects:       registry.access.redhat.com, docker.io
    MachineConfig: quay.io
` + saysAdvice},
		{"a blocked registry is left out", registrySources, workerConfig(registriesFile(emptyConf + "[[registry]]\nlocation = \"quay.io/shop/dev\"\ninsecure = true\n")), `MachineConfig 99-worker-generated-registries does not match the objects in force:
- backup.example.com
    objects:       blocked
    MachineConfig: (no entry)
- /etc/containers/policy.json: backup.example.com
    objects:       refused
    MachineConfig: (no entry)
A blocked registry that holds the release image and has no mirror is left out on
purpose; which image that is, is not known here.
` + saysAdvice},
		{"many", emptyImage, workerConfig(registriesFile(manyEntries(8))), `MachineConfig 99-worker-generated-registries does not match the objects in force:
- r0.local
    objects:       (no entry)
    MachineConfig: blocked
- r1.local
    objects:       (no entry)
    MachineConfig: blocked
- r2.local
    objects:       (no entry)
    MachineConfig: blocked
- r3.local
    objects:       (no entry)
    MachineConfig: blocked
- r4.local
    objects:       (no entry)
    MachineConfig: blocked
- r5.local
    objects:       (no entry)
    MachineConfig: blocked
- and 2 more
` + saysAdvice},
		{"not in the dump", teamDigests, "", saysNone},
		{"another MachineConfig", teamDigests, strings.Replace(workerConfig(), "99-worker-generated-registries", "99-worker-ssh", 1), saysNone},
		{"only spoken of", teamDigests, "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {about: MachineConfig 99-worker-generated-registries}\n", saysNone},
		{"no data URL", teamDigests, workerConfig([3]string{mirrors.RegistriesConfPath, "https://example.com/file", ""}), unknown(broken + "its contents are not a data URL")},
		{"a compression that Ignition does not have", teamDigests, workerConfig([3]string{mirrors.RegistriesConfPath, "data:,x", "xz"}), unknown(broken + `its compression "xz" is unknown`)},
		{"not compressed", teamDigests, workerConfig([3]string{mirrors.RegistriesConfPath, "data:,plain%20text", "gzip"}), unknown(broken + "gzip: invalid header")},
		{"no base64", teamDigests, workerConfig([3]string{mirrors.RegistriesConfPath, "data:;base64,%%", ""}), unknown(broken + `invalid URL escape "%%"`)},
		{"no TOML", teamDigests, workerConfig([3]string{mirrors.RegistriesConfPath, "data:,%5B", ""}), unknown(broken + "toml: line 1: unexpected end of table name (table names cannot be empty)")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(t, "", "render", "--from", clitest.Written(t, "dump.yaml", tt.objects+tt.config))
			if diff := cmp.Diff(tt.want, got.Err); diff != "" || got.Code != cli.ExitAdmitted {
				t.Errorf("exit %d, standard error (-want +got):\n%s", got.Code, diff)
			}
		})
	}
}

func manyEntries(n int) string {
	text := emptyConf
	for i := range n {
		text += fmt.Sprintf("[[registry]]\nlocation = \"r%d.local\"\nblocked = true\n", i)
	}
	return text
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

// TestRenderDumps finds the MachineConfig in every form a dump may have.
func TestRenderDumps(t *testing.T) {
	config := strings.TrimPrefix(workerConfig(registriesFile(teamConf)), "\n---\n")
	objects := strings.TrimPrefix(teamDigests, "\n---\n")
	item := func(text string) string {
		return "- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
	}
	list := "apiVersion: v1\nitems:\n" + item(objects) + item(config) + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	indented := "apiVersion: v1\nkind: List\nitems:\n  " + strings.ReplaceAll(strings.TrimSpace(item(objects)+item(config)), "\n", "\n  ") + "\n"
	folder := t.TempDir()
	for name, text := range map[string]string{"a/idms.yaml": objects, "b/99-worker-generated-registries.yaml": config, "b/notes.txt": "99-worker-generated-registries"} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, from, stdin string }{
		{"a List as oc writes it", clitest.Written(t, "dump.yaml", list), ""},
		{"a List as people write it", clitest.Written(t, "dump.yaml", indented), ""},
		{"a List in JSON", clitest.Written(t, "dump.json", toJSON(t, list)), ""},
		{"objects in JSON, one after the other", clitest.Written(t, "dump.json", toJSON(t, objects)+"\n"+toJSON(t, config)), ""},
		{"a folder", folder, ""},
		{"a compressed file", clitest.Written(t, "dump.yaml.gz", zipped(t, list)), ""},
		{"a compressed archive", clitest.Written(t, "must-gather.tar.gz", zipped(t, clitest.Archived(t, "x/idms.yaml", objects, "x/config.yaml", config))), ""},
		{"standard input", "-", list},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(t, tt.stdin, "render", "--from", tt.from)
			if diff := cmp.Diff(clitest.Outcome{Out: teamConf, Err: saysApplied}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func toJSON(t *testing.T, text string) string {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestRenderCluster compares with a MachineConfig that a real API server keeps.
func TestRenderCluster(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct{ name, apply, want string }{
		{"no MachineConfig", teamDigests, "Whether the Machine Config Operator has applied the objects in force is not known: the cluster has no MachineConfig 99-worker-generated-registries.\n"},
		{"applied", workerConfig(registriesFile(teamConf)), saysApplied},
		{"stuck", workerConfig(registriesFile(emptyConf)), `MachineConfig 99-worker-generated-registries does not match the objects in force:
- quay.io/team
    objects:       mirror m.local/team (digests)
    MachineConfig: (no entry)
` + saysAdvice},
	} {
		c.Apply(t, tt.apply)
		got := invoke(t, "", "render", "--kubeconfig", c.Kubeconfig)
		if diff := cmp.Diff(clitest.Outcome{Out: teamConf, Err: tt.want}, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
	t.Run("not allowed to read it", func(t *testing.T) {
		c.Apply(t, readerOfMirrors)
		right := authorizationv1.ResourceAttributes{Verb: "list", Group: "config.openshift.io", Resource: "imagetagmirrorsets"}
		if err := cluster.AwaitRight(t.Context(), c.Config, "reader", right); err != nil {
			t.Fatal(err)
		}
		want := "Whether the Machine Config Operator has applied the objects in force is not known: reading MachineConfig 99-worker-generated-registries: " +
			`machineconfigs.machineconfiguration.openshift.io "99-worker-generated-registries" is forbidden: User "reader" cannot get resource "machineconfigs" in API group "machineconfiguration.openshift.io" at the cluster scope.` + "\n"
		got := invoke(t, "", "render", "--kubeconfig", c.KubeconfigAs(t, "reader"))
		if diff := cmp.Diff(clitest.Outcome{Out: teamConf, Err: want}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// readerOfMirrors lets a user read what render wants, but for MachineConfigs.
const readerOfMirrors = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mirrors}
rules:
- {apiGroups: [config.openshift.io, operator.openshift.io], resources: ["*"], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mirrors}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mirrors}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`

// TestRenderIsWhatNodesGet holds the file, and the comparison, to the one that
// MCO's generator makes, for random configurations.
func TestRenderIsWhatNodesGet(t *testing.T) {
	compared, different := 0, 0
	for seed := range uint64(150) {
		r := random{rand.New(rand.NewPCG(seed, 4))}
		before, after, _, _ := r.situation(t)
		rendered, err := review.Render(policy.Change{Before: before, After: after}, true, func() (*mirrors.Applied, error) { return nil, objects.ErrNotApplied })
		if err != nil {
			continue
		}
		theirs, ours := nodeReading(t, mcoFile(t, after)), nodeReading(t, rendered.After)
		for range 10 {
			image := r.image(after)
			if diff := cmp.Diff(nodeRoute(t, theirs, image), nodeRoute(t, ours, image)); diff != "" {
				t.Fatalf("seed %d, %s: a node does something else (-MCO's file +ours):\n%s", seed, image, diff)
			}
		}
		compared++
		if d := mirrors.Differences(decoded(t, rendered.Before), decoded(t, mcoFile(t, before))); len(d) > 0 {
			t.Fatalf("seed %d: differences where there are none: %v", seed, d)
		}
		found := mirrors.Differences(decoded(t, rendered.Before), decoded(t, mcoFile(t, after)))
		if (len(found) > 0) != (rendered.Diff != "") {
			t.Fatalf("seed %d: differences %v, but the diff says:\n%s", seed, found, rendered.Diff)
		}
		if len(found) > 0 {
			different++
		}
	}
	if compared < 100 || different < compared/2 || different == compared {
		t.Errorf("%d compared, %d different: too few of the inputs were meaningful", compared, different)
	}
}

func decoded(t *testing.T, text string) sysregistriesv2.V2RegistriesConf {
	t.Helper()
	var conf sysregistriesv2.V2RegistriesConf
	if _, err := toml.Decode(text, &conf); err != nil {
		t.Fatal(err)
	}
	return conf
}
