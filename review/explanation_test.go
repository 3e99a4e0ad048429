package review

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestRemark is what --probe adds, in the words of the facts.
func TestRemark(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	place := mirrors.Location{Ref: "m.local/x:1"}
	tests := []struct {
		fact policy.Fact
		want string
	}{
		{policy.Fact{Presence: policy.Present}, "source, tried: present"},
		{policy.Fact{Presence: policy.Absent, AsNodes: true, Detail: "m.local answers 404"}, "source, tried: absent: m.local answers 404"},
		{policy.Fact{Presence: policy.Mismatch, Detail: "it serves " + digest}, "source, tried: mismatch: it serves sha256:aaaaaaaaaaaa"},
		{policy.Fact{}, "source, tried: unknown"},
	}
	for _, tt := range tests {
		e := Explainer{Facts: policy.Facts{place: &tt.fact}}
		if got := e.remark(mirrors.Resolution{}, mirrors.Step{PullSource: mirrors.PullSource{Location: place}}).String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
