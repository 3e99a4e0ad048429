package mirrors

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOrigins holds what is restated of the generator, who made an entry and whose mirrors
// it has, to what it generates.
func TestOrigins(t *testing.T) {
	inherited, blocked := 0, 0
	for seed := range uint64(4000) {
		r, err := NewResolution(gen{rand.New(rand.NewPCG(seed, 3))}.set())
		if err != nil {
			continue
		}
		for _, entry := range r.Config().Registries {
			scope := entry.Prefix
			origin, block := r.Origin(scope), r.BlockOrigin(scope)
			wider := origin.InheritedFrom
			if len(origin.Makers) == 0 || slices.Contains(origin.Makers, "") || (wider == "") != (len(origin.InheritedMakers) == 0) {
				t.Fatalf("seed %d: %s: %+v", seed, scope, origin)
			}
			if entry.Blocked != (len(block.Never) > 0 || block.Listed != "") {
				t.Fatalf("seed %d: %s: blocked %v, but %+v", seed, scope, entry.Blocked, block)
			}
			if entry.Blocked {
				blocked++
			}
			if own := len(entry.Mirrors) == 0 || len(r.entriesFor(scope)) > 0; own != (wider == "") {
				t.Fatalf("seed %d: %s: mirrors of its own: %v, inherited from %q", seed, scope, own, wider)
			}
			if wider == "" {
				continue
			}
			inherited++
			want := slices.Clone(r.index.entry(wider).Mirrors)
			for i := range want {
				want[i].Location += strings.TrimPrefix(scope, wider)
				want[i].Insecure = entry.Mirrors[i].Insecure // by its own location
			}
			if diff := cmp.Diff(want, entry.Mirrors); diff != "" {
				t.Fatalf("seed %d: %s: not the mirrors of %s (-want +got):\n%s", seed, scope, wider, diff)
			}
		}
	}
	if inherited < 40 || blocked < 40 {
		t.Errorf("only %d entries inherited mirrors, and %d were blocked", inherited, blocked)
	}
}
