package registries

import (
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
