package memory

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestGiveBack: what is not in use any more goes back to the system, and not because there is
// more that is.
func TestGiveBack(t *testing.T) {
	const much = 256 << 20
	giveBackBeyond(0) // what other tests have left
	before := held()
	block := make([]byte, much)
	for i := 0; i < much; i += 4096 {
		block[i] = 1
	}
	giveBackBeyond(0)
	if more := held() - before; more < much/2 {
		t.Errorf("what is in use is given back, but for %d MiB", more>>20)
	}
	runtime.KeepAlive(block)
	giveBackBeyond(2 * (before + much))
	if more := held() - before; more < much/2 {
		t.Errorf("%d MiB are left where little is held", more>>20)
	}
	giveBackBeyond(before + much/2)
	if more := int64(held()) - int64(before); more > much/2 {
		t.Errorf("%d MiB are kept", more>>20)
	}
}

// TestSpare: the percentage and the limit are those of before once the last one is done, and never more.
func TestSpare(t *testing.T) {
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	was := limit()
	first, second := Spare(), Spare()
	first()
	first()
	if got, most := limit(), int64(held())+2*sparingRoom; got > most {
		t.Errorf("a limit of %d bytes with one of two, want %d at most", got, most)
	}
	if got := percent(); got != sparingPercent {
		t.Errorf("%d %% with one of two, want %d", got, sparingPercent)
	}
	second()
	if got := percent(); got != 50 || limit() != was {
		t.Errorf("%d %% and a limit of %d bytes afterwards, want 50 and %d", got, limit(), was)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 20))
	low := Spare()
	if got := limit(); got != 1<<20 {
		t.Errorf("a limit of %d bytes where it was a MiB", got)
	}
	low()
	debug.SetGCPercent(10)
	third := Spare()
	if got := percent(); got != 10 {
		t.Errorf("%d %% where it was 10", got)
	}
	third()
	if got := percent(); got != 10 {
		t.Errorf("%d %% afterwards, want 10", got)
	}
}
