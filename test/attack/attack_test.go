package attack

import (
	"sync"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// TestAttack makes all attacks that leave the stage as it was.
func TestAttack(t *testing.T) {
	if !campaign.On() { // which measures times
		t.Parallel()
	}
	s := newStage(t)
	s.startGuards(t, 2)
	t.Run("memory", func(t *testing.T) { testMemory(t, s) })
	var beside sync.WaitGroup // which mostly waits, as do connections
	beside.Go(func() { t.Run("unread", func(t *testing.T) { testUnread(t, s) }) })
	beside.Go(func() { t.Run("audit file", func(t *testing.T) { testAuditFile(t, s) }) })
	t.Run("connections", func(t *testing.T) { testConnections(t, s) })
	beside.Wait()
	t.Run("trickle", func(t *testing.T) { testTrickle(t, s) })
	t.Run("references", func(t *testing.T) { testReferences(t, s) })
	t.Run("dead image", func(t *testing.T) { testDeadImage(t, s) })
	t.Run("blind", func(t *testing.T) { testBlind(t, s) })
	t.Run("blips", func(t *testing.T) { testBlips(t, s) })
	t.Run("forged override", func(t *testing.T) { testForgedOverride(t, s) })
	t.Run("flood", func(t *testing.T) { testFlood(t, s) })
	t.Run("Lease", func(t *testing.T) { testLease(t, s) })
	t.Run("contents of the Lease", func(t *testing.T) { testLeaseContents(t, s) })
	t.Run("rights lost", func(t *testing.T) { testRightsLost(t, s) }) // and not given back
}
