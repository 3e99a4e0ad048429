// Package skip is the one way by which a test of this repository is skipped: with a
// reason, and never in CI, where NO_SKIP is set and makes a failure of it. The linter
// refuses t.Skip elsewhere.
package skip

import (
	"os"
	"testing"
)

// variable makes a failure of every skip, unless it is empty.
const variable = "NO_SKIP"

// Now skips a test that cannot run here, because of reason.
func Now(t testing.TB, reason any) {
	t.Helper()
	if os.Getenv(variable) != "" {
		t.Fatalf("%s is set, and this would be skipped: %v", variable, reason)
	}
	t.Skip(reason)
}

// Part says that a test goes on without a part of what it tests, because of reason.
func Part(t testing.TB, reason any) {
	t.Helper()
	if os.Getenv(variable) != "" {
		t.Fatalf("%s is set, and a part of this would be left out: %v", variable, reason)
	}
	t.Log(reason)
}

// Integration reports whether tests may start other programs: control planes, registries, the guard. It
// is so with the build tag integration, as in make integration and in the campaigns, not in make test. A file whose
// tests all do has the tag itself: what it needs takes long to link.
func Integration() bool { return integration }

// UnlessIntegration leaves a test to make integration, which runs it. NO_SKIP does not matter there.
func UnlessIntegration(t testing.TB) {
	t.Helper()
	if !Integration() {
		t.Skip("make integration runs it")
	}
}
