package load

import (
	"testing"
	"time"
)

// TestForgive: only a change that was under way while the machine stood still is forgiven.
func TestForgive(t *testing.T) {
	start := time.Now()
	at := func(from, to time.Duration) span { return span{start.Add(from), start.Add(to)} }
	l := load{
		pauses: []span{at(10*time.Second, 16*time.Second)},
		withoutVerdict: []unanswered{
			{at(8*time.Second, 9*time.Second), "ended before"},
			{at(9*time.Second, 16*time.Second), "under way"},
			{at(11*time.Second, 17*time.Second), "begun before its end"},
			{at(17*time.Second, 18*time.Second), "begun after"},
		},
	}
	if n := l.forgive(); n != 2 || len(l.withoutVerdict) != 2 || l.withoutVerdict[0].answer != "ended before" || l.withoutVerdict[1].answer != "begun after" {
		t.Errorf("%d are forgiven, and these are left: %v", n, l.withoutVerdict)
	}
	if l.pauses = nil; l.forgive() != 0 {
		t.Error("a change without a verdict is forgiven on a machine that runs")
	}
}
