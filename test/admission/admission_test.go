package admission

import "testing"

// TestAdmission tells everything on one stage, which takes longer to set up than most of it.
func TestAdmission(t *testing.T) {
	s := newStage(t)
	t.Run("races", func(t *testing.T) { testRaces(t, s) })
	t.Run("refused by another", func(t *testing.T) { testRefusedByAnother(t, s) })
	t.Run("overrides", func(t *testing.T) { testOverrides(t, s) })
	t.Run("many at once", func(t *testing.T) { testManyAtOnce(t, s) })
	t.Run("latency", func(t *testing.T) { testLatency(t, s) })
	t.Run("missing right", func(t *testing.T) { testMissingRight(t, s) })
}
