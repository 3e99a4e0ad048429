package inspect

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// TestReleaseFIPS: OpenPGP names keys by SHA-1, which must not end the command where all that FIPS 140-3 does not approve fails. The
// mode is that of a process, so TestRelease is started again.
func TestReleaseFIPS(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRelease$", "-test.v")
	child.Env = append(os.Environ(), "GODEBUG=fips140=only")
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestRelease ")) {
		t.Errorf("%v\n%s", err, out)
	}
}
