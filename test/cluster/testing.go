package cluster

import (
	"errors"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// New starts a cluster that ends with the test. The test is skipped where the programs
// are not in place, and in a run with -short.
func New(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	skip.IfShort(t, "it starts a control plane")
	c, err := Start(t.TempDir(), options...)
	if errors.Is(err, ErrNoAssets) {
		skip.Now(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}
