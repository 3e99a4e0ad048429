package simulation

import (
	"testing"
	"time"
)

// TestLeaving: what a pod that is being deleted is taken for, by what is known of its end.
func TestLeaving(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		reason     string
		now, ends  time.Time
		finalizers string
		want       string // the worst course
	}{
		{"it has time", noon, noon.Add(30 * time.Second), "", "finishes"},
		{"it is late, as many are", noon.Add(time.Minute), noon, "", "finishes"},
		{"it is past its time", noon.Add(3 * time.Minute), noon, "", "w1's drain stalls: app/web-0 has to end first, and should have ended 2026-03-01 12:00 UTC"},
		{"nobody knows the time", time.Time{}, noon, "", "w1's drain may stall: app/web-0 has to end first, and may not end"},
		{"nor when it is to end", noon, time.Time{}, "", "w1's drain may stall: app/web-0 has to end first, and may not end"},
		{"it has time, and a finalizer", noon, noon.Add(30 * time.Second), "example.com/keep", "w1's drain stalls: app/web-0 has to end first, and keeps example.com/keep (finalizers)"},
	} {
		c := scene(three + "ReplicaSet w1!deleted,w2 web image=works").cluster(t)
		c.Pods[0].Ends, c.Pods[0].Finalizers = tt.ends, tt.finalizers
		in := inputFor(c)
		in.Now = tt.now
		got := Run(in)
		if said(got) != tt.want {
			t.Errorf("%s: got %s", tt.reason, said(got))
		}
		for _, s := range got.Stalls {
			if s.ByImage {
				t.Errorf("%s: put down to an image", tt.reason)
			}
		}
	}
}
