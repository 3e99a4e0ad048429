package causes

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/pools"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// TestPutBack runs the command that puts a file back in a shell, where oc is played: what there is
// in a rendered config reaches the node, and where there is nothing, the node is left alone.
func TestPutBack(t *testing.T) {
	skip.UnlessIntegration(t)
	if _, err := exec.LookPath("python3"); err != nil {
		skip.Now(t, "there is no python3, which the command needs")
	}
	const content = "unqualified-search-registries = []\n"
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	if _, err := z.Write([]byte(content)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	in := input(pools.Worker("2"), pools.Node("a", "wants=2", "state=Degraded", `reason=unexpected on-disk state validating against rendered-worker-1: content mismatch for file "/etc/x.conf"`))
	remedies := Diagnose(in, asked(in)).HoldUps[0].Remedies
	command := remedies[len(remedies)-2].Command
	for _, tt := range []struct{ reason, oc, want string }{
		{"a plain file", "echo ' data:,unqualified-search-registries%20%3D%20%5B%5D%0A'", content},
		{"base64", "echo ' data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(content)) + "'", content},
		{"compressed", "echo 'gzip data:;base64," + base64.StdEncoding.EncodeToString(compressed.Bytes()) + "'", content},
		{"no such file", "true", "before"},
		{"no answer", "exit 1", "before"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "file-on-node")
		oc := "#!/bin/sh\ncase $1 in\nget) " + tt.oc + " ;;\ndebug) exec cat >" + file + " ;;\nesac\n"
		for name, data := range map[string]string{file: "before", filepath.Join(dir, "oc"): oc} {
			if err := os.WriteFile(name, []byte(data), 0o700); err != nil { // one is a program
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TMPDIR="+dir)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (tt.want == content) {
			t.Errorf("%s: %v\n%s", tt.reason, err, out)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.reason, got, err, tt.want)
		}
	}
}
