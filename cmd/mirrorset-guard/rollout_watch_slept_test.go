package main

import (
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/progress"
)

// TestRolloutWatchSlept: what did not happen while the watch was stopped, as by Ctrl-Z, is not
// held against a rollout.
func TestRolloutWatchSlept(t *testing.T) {
	for _, tt := range []struct {
		reason         string
		slept, watched time.Duration
		missed         bool
	}{
		{"stopped for an hour", time.Hour, 9 * time.Minute, false},
		{"stopped for an hour, and watched for long enough", time.Hour, 10 * time.Minute, true},
		{"only busy", leastSleep - 1, 10*time.Minute - leastSleep + 1, true},
	} {
		w := &watcher{watchOptions: &watchOptions{stallAfter: 10 * time.Minute}, tracker: progress.NewTracker(progress.Settings{})}
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
