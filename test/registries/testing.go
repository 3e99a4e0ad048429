package registries

import (
	"errors"
	"io"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// Need skips a test that starts a Process where the program is not in place, and in a
// run with -short.
func Need(t testing.TB) {
	t.Helper()
	skip.IfShort(t, "it starts a registry")
	if _, err := Binary(); err != nil {
		skip.Now(t, err)
	}
}

// Start starts a Process with its files in dir, and a Front before it. Both end with the test,
// which is skipped where Need says so.
func Start(t testing.TB, dir string) *Front {
	t.Helper()
	Need(t)
	process, err := StartProcess(dir, "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	front, err := NewFront(process)
	if err != nil {
		t.Fatal(errors.Join(err, process.Stop()))
	}
	t.Cleanup(func() {
		front.Close()
		if err := front.Kill(); err != nil {
			t.Error(err)
		}
	})
	return front
}
