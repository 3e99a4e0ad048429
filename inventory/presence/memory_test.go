package presence

import (
	"reflect"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// TestRefusalsAreShared: what a registry refuses of many images in the same words is one fact; all
// else, and all that such a fact says, stays what it is.
func TestRefusalsAreShared(t *testing.T) {
	var r refusals
	now := time.Date(2026, 5, 4, 3, 2, 1, 5e8, time.UTC)
	absent := policy.Fact{Presence: policy.Absent, Detail: "404", AsNodes: true, Time: now}
	changed := func(by func(*policy.Fact)) policy.Fact {
		f := absent
		by(&f)
		return f
	}
	first := r.shared(absent)
	for _, tt := range []struct {
		reason string
		fact   policy.Fact
		shared bool
	}{
		{"the same", absent, true},
		{"later in the second", changed(func(f *policy.Fact) { f.Time = now.Add(time.Second / 4) }), true},
		{"a second later", changed(func(f *policy.Fact) { f.Time = now.Add(time.Second) }), false},
		{"no time", changed(func(f *policy.Fact) { f.Time = time.Time{} }), false},
		{"other words", changed(func(f *policy.Fact) { f.Detail = "no manifest" }), false},
		{"not asked as nodes", changed(func(f *policy.Fact) { f.AsNodes = false }), false},
		{"unreachable", changed(func(f *policy.Fact) { f.Presence = policy.Unreachable }), false},
		{"present", changed(func(f *policy.Fact) { f.Presence = policy.Present }), false},
		{"recalled", changed(func(f *policy.Fact) { f.Recalled = true }), false},
		{"with a digest", changed(func(f *policy.Fact) { f.Digest = "sha256:0" }), false},
		{"with parts", changed(func(f *policy.Fact) { f.Missing = []string{"linux/arm64"} }), false},
		{"with signatures", changed(func(f *policy.Fact) { f.Signatures = new(signing.Signatures) }), false},
	} {
		got := r.shared(tt.fact)
		if (got == first) != tt.shared {
			t.Errorf("%s: shared %v, want %v", tt.reason, got == first, tt.shared)
		}
		if off := tt.fact.Time.Sub(got.Time); off < 0 || off >= time.Second {
			t.Errorf("%s: the time is off by %v", tt.reason, off)
		}
		same := *got
		same.Time = tt.fact.Time
		if !reflect.DeepEqual(same, tt.fact) {
			t.Errorf("%s: got %+v, want %+v", tt.reason, same, tt.fact)
		}
		if tt.reason == "a second later" || tt.reason == "no time" {
			first = r.shared(absent)
		}
	}
}
