package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
)

const dumpInForce = `apiVersion: v1
kind: List
items:
- apiVersion: config.openshift.io/v1
  kind: ImageDigestMirrorSet
  metadata: {name: platform}
  spec: {imageDigestMirrors: [{source: quay.io, mirrors: [mirror.example.com]}]}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {namespace: shop, name: cart}
  spec: {template: {spec: {containers: [{name: app, image: "quay.io/shop/cart:v1"}]}}}
- apiVersion: v1
  kind: ConfigMap
  metadata: {namespace: shop, name: settings}
`

const harmless = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: other}
spec: {imageTagMirrors: [{source: registry.example.org/tools, mirrors: [mirror.example.com/tools]}]}
`

const conflicting = `apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: odd}
spec: {imageTagMirrors: [{source: quay.io, mirrors: [mirror.example.com], mirrorSourcePolicy: NeverContactSource}]}
`

// check runs the command on files of the given content. {dir} in args stands for
// their folder.
func check(t *testing.T, files map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{dir}", dir)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"check"}, args...), strings.NewReader(files["stdin"]), &out, &errs)
	return code, out.String(), strings.ReplaceAll(errs.String(), dir, "{dir}")
}

func TestCheckBadInput(t *testing.T) {
	files := map[string]string{
		"dump.yaml": dumpInForce, "good.yaml": harmless, "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
		"broken.yaml": "kind: [", "wrong.yaml": strings.Replace(harmless, "[{source", "{source", 1), "nameless.yaml": strings.Replace(harmless, "name: other", "labels: {}", 1),
	}
	tests := []struct {
		name string
		args []string
		want string // on stderr
	}{
		{"nothing to check", nil, "mirrorset-guard: no change: name it with -f FILE, -f FOLDER or -f -\n"},
		{"no such file", []string{"-f", "{dir}/none.yaml", "--from", "{dir}/dump.yaml"}, "mirrorset-guard: stat {dir}/none.yaml: no such file or directory\n"},
		{"no mirror object", []string{"-f", "{dir}/pod.yaml", "--from", "{dir}/dump.yaml"}, "mirrorset-guard: {dir}/pod.yaml, document 1 left out: v1 Pod: not a mirror object\nmirrorset-guard: no ImageTagMirrorSet, ImageDigestMirrorSet, ImageContentSourcePolicy, Image, ClusterImagePolicy, ImagePolicy or PinnedImageSet in {dir}/pod.yaml\n"},
		{"no YAML", []string{"-f", "{dir}/broken.yaml", "--from", "{dir}/dump.yaml"}, "mirrorset-guard: {dir}/broken.yaml, document 1: error converting YAML to JSON: yaml: line 1: did not find expected node content\n"},
		{"no name", []string{"-f", "{dir}/nameless.yaml", "--from", "{dir}/dump.yaml"}, "mirrorset-guard: {dir}/nameless.yaml, document 1: ImageTagMirrorSet: metadata.name: Required value: name or generateName is required\n"},
		{"no cluster", []string{"-f", "{dir}/good.yaml"}, "mirrorset-guard: no cluster: set KUBECONFIG or --kubeconfig, or read a dump of one with --from\n"},
		{"no such format", []string{"-f", "{dir}/good.yaml", "-o", "pdf"}, `mirrorset-guard: --output "pdf": choose one of table, json, yaml, junit, markdown, html, sarif, narrowed` + "\n"},
		{"no such CA", []string{"-f", "{dir}/good.yaml", "--from", "{dir}/dump.yaml", "--registry-ca", "{dir}/good.yaml"}, "mirrorset-guard: --registry-ca {dir}/good.yaml: no certificate in it\n"},
		{"half a resolution", []string{"-f", "{dir}/good.yaml", "--from", "{dir}/dump.yaml", "--resolve", "quay.io"}, `mirrorset-guard: --resolve "quay.io": want HOST=ADDRESS:PORT or HOST:PORT=ADDRESS:PORT` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := check(t, files, tt.args...)
			if code != cli.ExitTrouble || stdout != "" || stderr != tt.want {
				t.Errorf("exit code %d, stdout %q, stderr\n%s\nwant\n%s", code, stdout, stderr, tt.want)
			}
		})
	}
}

func TestCheckWithoutEffect(t *testing.T) {
	code, stdout, _ := check(t, map[string]string{"dump.yaml": dumpInForce, "stdin": harmless}, "-f", "-", "--from", "{dir}/dump.yaml")
	want := `ImageTagMirrorSet other is admitted: it reroutes 0 of 1 image, so there was nothing to verify.

Note: skipped 1 object of 1 kind that holds no images: ConfigMap

Note: registries were asked without credentials: no Secret openshift-config/pull-secret in the dump; see --pull-secret

Note: the entry covers nothing that the cluster uses

Registries were asked from this machine; nodes may have other proxies, CAs and name servers.
`
	if code != cli.ExitAdmitted || stdout != want {
		t.Errorf("exit code %d\n%s\nwant\n%s", code, stdout, want)
	}
}

// TestCheckReplaces: one object takes the place of another. The change is judged as a whole and step by step, with an order that works
// for NeverContactSource, and the proof that nothing moves where nothing does.
func TestCheckReplaces(t *testing.T) {
	const (
		old = "apiVersion: operator.openshift.io/v1alpha1\nkind: ImageContentSourcePolicy\nmetadata: {name: old}\nspec: {repositoryDigestMirrors: [{source: quay.io/app, mirrors: [m.example.com/app]}]}\n"
		now = "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: new}\nspec: {imageDigestMirrors: [{source: quay.io/app, mirrors: [m.example.com/app]POLICY}]}\n"
	)
	for _, tt := range []struct{ policy, want, wantNot string }{
		{"", "Note: nothing moves: after each step, too,", "would refuse"},
		{", mirrorSourcePolicy: NeverContactSource", "would refuse ImageDigestMirrorSet new; this order works: ImageDigestMirrorSet new with AllowContactingSource, Deleting ImageContentSourcePolicy old, ImageDigestMirrorSet new as it is", "nothing moves"},
	} {
		files := map[string]string{"dump.yaml": strings.Replace(dumpInForce, "quay.io", "quay.example.com", 1) + "---\n" + old, "old.yaml": old, "new.yaml": strings.Replace(now, "POLICY", tt.policy, 1)}
		code, stdout, stderr := check(t, files, "-f", "{dir}/new.yaml", "--delete-file", "{dir}/old.yaml", "--from", "{dir}/dump.yaml")
		if code != cli.ExitAdmitted || !strings.Contains(stdout, tt.want) || strings.Contains(stdout, tt.wantNot) {
			t.Errorf("exit code %d, want %q\n%s%s", code, tt.want, stdout, stderr)
		}
		files["old.yaml"] = "{apiVersion: v1, kind: List, items: []}"
		if code, _, stderr := check(t, files, "-f", "{dir}/new.yaml", "--delete-file", "{dir}/old.yaml", "--from", "{dir}/dump.yaml"); code != cli.ExitTrouble || !strings.Contains(stderr, "--delete-file: no object in ") {
			t.Errorf("of nothing: exit code %d: %s", code, stderr)
		}
	}
}

// TestCheckWritesFiles: several formats of one review, written although the change is denied, and not
// where there is no verdict.
func TestCheckWritesFiles(t *testing.T) {
	dir := t.TempDir()
	report, page := filepath.Join(dir, "report.xml"), filepath.Join(dir, "report.md")
	files := map[string]string{"dump.yaml": dumpInForce, "odd.yaml": conflicting}
	args := []string{"--from", "{dir}/dump.yaml", "-o", "json", "-o", "junit=" + report, "-o", "markdown=" + page, "-f"}
	if code, _, stderr := check(t, files, append(args, "{dir}/none.yaml")...); code != cli.ExitTrouble || stderr == "" {
		t.Errorf("no change: exit code %d", code)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("there is no verdict, but %v", entries)
	}
	code, stdout, _ := check(t, files, append(args, "{dir}/odd.yaml")...)
	for _, want := range []string{`"rule": "RejectedByMCO"`, `"reason": "the Machine Config Operator would reject the merged configuration and silently stop applying mirror changes"`, `"total": 1`} {
		if code != cli.ExitDenied || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d\n%s\nlacks %s", code, stdout, want)
		}
	}
	for path, want := range map[string]string{report: `type="RejectedByMCO"`, page: "| deny | RejectedByMCO |"} {
		if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%v\n%s\nlacks %s", err, data, want)
		}
	}
}
