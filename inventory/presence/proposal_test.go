package presence

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestNothingIsProposed: a Store that has no Prober for other CAs does not pretend to.
// What a Proposal answers by a Client is tested beside that.
func TestNothingIsProposed(t *testing.T) {
	store := newTestStore(&fakeProber{presence: policy.Present})
	defer store.Close()
	p := store.Proposed(nil)
	defer p.Close()
	proposed := tagged()
	proposed.ProposedTrust = true
	found := map[mirrors.Location]policy.Presence{}
	for l, f := range p.Presence(t.Context(), []mirrors.Location{tagged(), proposed}, policy.Freshness{}) {
		found[l] = f.Presence
	}
	want := map[mirrors.Location]policy.Presence{tagged(): policy.Present, proposed: policy.Unreachable}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}
