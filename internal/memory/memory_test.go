package memory

import (
	"runtime"
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
