package follow

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// TestRetries: attempts that fail are further and further apart, as are those after watches that are
// cut, and whoever is in a hurry does not have to wait.
func TestRetries(t *testing.T) {
	delays := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 4}
	synctest.Test(t, func(t *testing.T) {
		var s Source
		r := &s.retries
		waited := func() time.Duration {
			start := time.Now()
			r.wait(t.Context())
			return time.Since(start)
		}
		if got := waited(); got != 0 {
			t.Errorf("the first attempt waits for %s", got)
		}
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			r.step(delays)
			if got := waited(); got != want {
				t.Errorf("waited for %s, want %s", got, want)
			}
		}
		r.step(delays)
		go func() {
			time.Sleep(100 * time.Millisecond)
			s.Hurry()
		}()
		if got := waited(); got != 100*time.Millisecond {
			t.Errorf("waited for %s, though somebody was in a hurry after 100ms", got)
		}
		time.Sleep(forgetFailures)
		if r.step(delays); waited() != time.Second {
			t.Error("the delays do not begin from the start")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var r retries
		for i, want := range []bool{false, false, true, true} { // the first list, one after 410 Gone, and a watch that does not last
			time.Sleep(time.Second)
			if got := r.listing(delays); got != want {
				t.Errorf("list %d counts as a failure: %t", i, got)
			}
			r.wait(t.Context())
		}
		time.Sleep(forgetFailures)
		if r.listing(delays) {
			t.Error("a list after a long time counts as a failure")
		}
	})
}
