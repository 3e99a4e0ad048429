package watch

import (
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
)

// noon is when the watches of tests begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestSlept: what did not happen while the watch was stopped, as by Ctrl-Z, is not
// held against a rollout.
func TestSlept(t *testing.T) {
	for _, tt := range []struct {
		reason         string
		slept, watched time.Duration
		missed         bool
	}{
		{"stopped for an hour", time.Hour, 9 * time.Minute, false},
		{"stopped for an hour, and watched for long enough", time.Hour, 10 * time.Minute, true},
		{"only busy", leastSleep - 1, 10*time.Minute - leastSleep + 1, true},
	} {
		w := &Watcher{Options: Options{StallAfter: 10 * time.Minute}, tracker: progress.NewTracker(0)}
		w.reach.Missing = "what is waited for"
		if o, err := w.unmet.judge(w, noon); o != nil || err != nil {
			t.Fatalf("%s: at once: %v, %v", tt.reason, o, err)
		}
		w.slept(tt.slept)
		if o, err := w.unmet.judge(w, noon.Add(tt.slept+tt.watched)); (o != nil) != tt.missed || err != nil {
			t.Errorf("%s: got %v, %v", tt.reason, o, err)
		}
	}
}
