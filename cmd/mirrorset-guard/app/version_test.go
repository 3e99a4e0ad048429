package app

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

func program(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return Run(ctx, append([]string{"mirrorset-guard"}, args...), stdin, stdout, stderr)
}

// TestVersion: the version says whether FIPS 140-3 mode is on, which is that of a process.
func TestVersion(t *testing.T) {
	if os.Getenv("PRINT_VERSION") != "" {
		t.Log(clitest.Invoke(t, program, "", "version").Out)
		return
	}
	for mode, want := range map[string]string{"off": ", off", "on": ", on", "only": ", on; what it does not approve is refused"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVersion$", "-test.v")
		child.Env = append(os.Environ(), "PRINT_VERSION=1", "GODEBUG=fips140="+mode)
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "mirrorset-guard devel ") || !strings.Contains(string(out), "  FIPS 140-3 module latest"+want+"\n") {
			t.Errorf("fips140=%s: want %q: %v\n%s", mode, want, err, out)
		}
	}
}
