package inspect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestCheckByMode: check goes by the mode of the file, and says so.
func TestCheckByMode(t *testing.T) {
	files := map[string]string{"dump.yaml": dumpInForce, "odd.yaml": conflicting, "bad.yaml": "kind: x\n"}
	for mode, want := range map[string]struct {
		code int
		head string
	}{
		"enforce": {cli.ExitDenied, "ImageTagMirrorSet odd is refused: "},
		"warn":    {cli.ExitAdmitted, "ImageTagMirrorSet odd is admitted in mode warn, and would be refused in mode enforce: "},
		"audit":   {cli.ExitAdmitted, "ImageTagMirrorSet odd is admitted in mode audit, and would be refused in mode enforce: "},
	} {
		files["config.yaml"] = clitest.ConfigHeader + "mode: " + mode + "\n"
		args := []string{"-f", "{dir}/odd.yaml", "--from", "{dir}/dump.yaml", "--config", "{dir}/config.yaml", "-o"}
		code, stdout, stderr := check(t, files, append(args, "table")...)
		if code != want.code || !strings.HasPrefix(stdout, want.head) {
			t.Errorf("mode %s: exit code %d\n%s%s\nwant %d\n%s", mode, code, stdout, stderr, want.code, want.head)
		}
		code, stdout, _ = check(t, files, append(args, "json")...)
		var doc v1alpha1.Review
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != want.code || doc.Mode != mode || doc.Allowed != (code == cli.ExitAdmitted) || doc.Allowed != strings.HasPrefix(doc.Waived, want.head) {
			t.Errorf("mode %s: %v, exit code %d, mode %q, waived %q", mode, err, code, doc.Mode, doc.Waived)
		}
		code, stdout, _ = check(t, files, append(args, "junit")...)
		if code != want.code || strings.Contains(stdout, "<failure") != (mode == "enforce") {
			t.Errorf("mode %s: exit code %d\n%s", mode, code, stdout)
		}
	}
	code, _, stderr := check(t, files, "-f", "{dir}/odd.yaml", "--from", "{dir}/dump.yaml", "--config", "{dir}/bad.yaml")
	if code != cli.ExitTrouble || !strings.HasPrefix(stderr, "mirrorset-guard: --config: {dir}/bad.yaml: 2 mistakes:\n- apiVersion: Required value") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestCheckByUser: exemptions of users hold for --for-user, and are noted without it.
func TestCheckByUser(t *testing.T) {
	files := map[string]string{
		"dump.yaml": dumpInForce, "odd.yaml": conflicting,
		"config.yaml": clitest.ConfigHeader + "exemptions: [{name: ops, groups: [ops], protected: true}]\n",
	}
	const note = "Note: exemptions of users and groups were not applied, as it is not known who will make the change; see --for-user\n"
	for _, tt := range []struct {
		as    []string
		code  int
		noted bool
	}{
		{nil, cli.ExitDenied, true},
		{[]string{"--for-user", "ann"}, cli.ExitDenied, false},
		{[]string{"--for-user", "ann", "--for-group", "ops"}, cli.ExitAdmitted, false},
		{[]string{"--for-group", "ops"}, cli.ExitTrouble, false},
	} {
		code, stdout, stderr := check(t, files, append([]string{"-f", "{dir}/odd.yaml", "--from", "{dir}/dump.yaml", "--config", "{dir}/config.yaml"}, tt.as...)...)
		if code != tt.code || strings.Contains(stdout, note) != tt.noted {
			t.Errorf("%v: exit code %d, want %d\n%s%s", tt.as, code, tt.code, stdout, stderr)
		}
	}
}
