package attack

import "testing"

// TestAttack makes all attacks that leave the stage as it was.
func TestAttack(t *testing.T) {
	s := newStage(t)
	s.startGuards(t, 2)
	t.Run("memory", func(t *testing.T) { testMemory(t, s) })
}
