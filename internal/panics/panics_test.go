package panics

import (
	"errors"
	"strings"
	"testing"
)

// TestRecovered: an error stays what it is, and a panic becomes one that says where it was.
func TestRecovered(t *testing.T) {
	failed := errors.New("failed")
	if err := Recovered(func() error { return failed }); err != failed { //nolint:errorlint // the same one
		t.Errorf("got %v", err)
	}
	err := Recovered(func() error { panic("half an archive") })
	if err == nil || err.Error() != "panic: half an archive" || !strings.Contains(StackOf(err), "panics_test.go") || StackOf(failed) != "" {
		t.Errorf("got %v\n%s", err, StackOf(err))
	}
}
