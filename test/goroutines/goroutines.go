// Package goroutines checks that what a test started has ended.
package goroutines

import (
	"runtime"
	"testing"
	"time"
)

// maxWait is how long goroutines may take to end once they were told to.
const maxWait = time.Minute

// Await waits until there are no more than n goroutines, as runtime.NumGoroutine counted
// them before something was started. If there still are, the test fails and shows them all.
func Await(t testing.TB, n int) {
	t.Helper()
	for deadline := time.Now().Add(maxWait); runtime.NumGoroutine() > n; runtime.Gosched() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), n, buf[:runtime.Stack(buf, true)])
		}
	}
}
