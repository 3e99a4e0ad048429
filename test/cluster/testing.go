package cluster

import (
	"errors"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// New returns a cluster for one test, except in a run that is not make integration, where the test is
// skipped. A cluster without options is one of the pool, if there is a pool: the test has it alone, and
// leaves it as it found it. Else it is started for the test.
func New(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	skip.UnlessIntegration(t)
	var c *Cluster
	var err error
	if len(options) == 0 {
		c, err = pooled(t.TempDir())
	}
	if c == nil && err == nil {
		c, err = Start(t.TempDir(), options...)
	}
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
