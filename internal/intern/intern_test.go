package intern

import (
	"runtime"
	"testing"
	"time"
)

type box struct {
	text string
}

// size returns how many values p holds, those included that wait for the garbage collector.
func size(p *Pool[string, box]) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.values)
}

func TestPoolSharesWhatIsInUse(t *testing.T) {
	var p Pool[string, box]
	made := 0
	get := func(key string) *box {
		return p.Get(key, func() *box {
			made++
			return &box{text: key}
		})
	}
	a, again, b := get("a"), get("a"), get("b")
	if a != again || a == b || made != 2 || size(&p) != 2 {
		t.Fatalf("%d values made, %d held; equal ones are one: %v", made, size(&p), a == again)
	}
	runtime.KeepAlive(b)
	for deadline := time.Now().Add(time.Minute); size(&p) > 1; {
		if time.Now().After(deadline) {
			t.Fatal("what nothing uses any more is still held")
		}
		runtime.GC() // cleanups run some time after it
		runtime.Gosched()
	}
	if a != get("a") {
		t.Error("a value in use was forgotten")
	}
	if get("b").text != "b" || made != 3 {
		t.Errorf("%d values made, want a new b", made)
	}
	runtime.KeepAlive(a)
}
