package rollout

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMain runs the tests, or is a program that the stage plays: see shell.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == playedProgram {
		os.Exit(bePlayed(os.Args[1:]))
	}
	os.Exit(m.Run())
}
