package config_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

func TestConfigCommand(t *testing.T) {
	bad := clitest.Written(t, "bad.yaml", clitest.ConfigHeader+"mode: enforced\nseverities: {ImageMising: warn}\nexemption: []\n")
	good := clitest.Written(t, "good.yaml", clitest.ConfigHeader+"mode: warn\n")
	for _, tt := range []struct {
		args           string
		stdin          string
		code           int
		stdout, stderr string // the beginning
	}{
		{"validate " + good, "", 0, good + " is a good configuration; its mode is warn\n", ""},
		{"validate -", clitest.ConfigHeader, 0, "standard input is a good configuration; its mode is enforce\n", ""},
		{"validate " + bad, "", cli.ExitTrouble, "", "mirrorset-guard: " + bad + `: 3 mistakes:
- exemption: Forbidden: unknown field
- mode: Unsupported value: "enforced": supported values: "enforce", "warn", "audit"
- severities[ImageMising]: Invalid value: no such rule: want RULE or RULE@protected
`},
		{"validate -", "", cli.ExitTrouble, "", "mirrorset-guard: standard input: 2 mistakes:\n- apiVersion: Required value"},
		{"validate " + filepath.Join(t.TempDir(), "none"), "", cli.ExitTrouble, "", "mirrorset-guard: open "},
		{"validate", "", cli.ExitTrouble, "", "mirrorset-guard: accepts 1 arg(s), received 0\n"},
		{"defaults", "", 0, clitest.ConfigHeader + "mode: enforce\n", ""},
		{"schema", "", 0, "{\n", ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"config"}, strings.Fields(tt.args)...), strings.NewReader(tt.stdin), &out, &errs)
			if code != tt.code || !strings.HasPrefix(out.String(), tt.stdout) || !strings.HasPrefix(errs.String(), tt.stderr) || tt.stderr == "" != (errs.Len() == 0) {
				t.Errorf("exit code %d\n%s\n%s\nwant %d\n%s\n%s", code, &out, &errs, tt.code, tt.stdout, tt.stderr)
			}
		})
	}
}
