package presence

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

func at(l mirrors.Location, d mirrors.Depth) mirrors.Location {
	l.Depth = d
	return l
}

// TestDepths: which fact answers a lookup of another depth at the same location.
func TestDepths(t *testing.T) {
	present := &policy.Fact{Presence: policy.Present}
	sparse := &policy.Fact{Presence: policy.Present, Missing: []string{"linux/arm64"}}
	for _, tc := range []struct {
		reason string
		known  mirrors.Depth
		fact   *policy.Fact
		asked  mirrors.Depth
		reused bool
	}{
		{"all was found, and less is wanted", mirrors.DepthBlobs, present, mirrors.DepthManifest, true},
		{"all was found, and still less is wanted", mirrors.DepthBlobs, present, mirrors.DepthExists, true},
		{"a HEAD request shows no manifest", mirrors.DepthExists, present, mirrors.DepthManifest, false},
		{"a manifest shows no blobs", mirrors.DepthManifest, present, mirrors.DepthBlobs, false},
		{"a miss is one at any depth", mirrors.DepthExists, &policy.Fact{Presence: policy.Absent}, mirrors.DepthBlobs, true},
		{"a miss is one at any depth, the other way round", mirrors.DepthBlobs, &policy.Fact{Presence: policy.Absent}, mirrors.DepthExists, true},
		{"what lacks blobs may have its manifests", mirrors.DepthBlobs, sparse, mirrors.DepthManifest, false},
		{"the same of a single image", mirrors.DepthBlobs, &policy.Fact{Presence: policy.Incomplete}, mirrors.DepthManifest, false},
		{"a blob that nobody could ask for", mirrors.DepthBlobs, &policy.Fact{Presence: policy.Unreachable}, mirrors.DepthExists, false},
		{"credentials that do not open blobs", mirrors.DepthBlobs, &policy.Fact{Presence: policy.Denied}, mirrors.DepthExists, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &counter{facts: policy.Facts{at(digested(), tc.known): tc.fact}}
				s := newTestStore(p)
				defer s.Close()
				for _, d := range []mirrors.Depth{tc.known, tc.asked} {
					s.Presence(t.Context(), []mirrors.Location{at(digested(), d)}, policy.Freshness{})
				}
				if reused := p.probed.Load() == 1; reused != tc.reused {
					t.Errorf("%d probes: reused %v, want %v", p.probed.Load(), reused, tc.reused)
				}
				if known := s.Known([]mirrors.Location{at(digested(), tc.asked)}); (len(known) == 1) != tc.reused {
					t.Errorf("known: %v", known)
				}
			})
		})
	}
}

// nodesProber is a Prober that knows the platforms of nodes.
type nodesProber struct {
	*counter
	mu   sync.Mutex
	list []string
}

func (p *nodesProber) Platforms() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// TestNodesOfAnotherPlatform: what was found out for some platforms says nothing of one
// that a new node brings.
func TestNodesOfAnotherPlatform(t *testing.T) {
	amd64, both := []string{"linux/amd64"}, []string{"linux/amd64", "linux/arm64"}
	for _, tc := range []struct {
		reason        string
		fact          *policy.Fact
		before, after []string
		again         bool
	}{
		{"the same nodes", &policy.Fact{Serves: amd64}, amd64, amd64, false},
		{"a new platform", &policy.Fact{Serves: amd64}, amd64, both, true},
		{"one less, which the fact must not lack any more", &policy.Fact{Serves: amd64, Lacks: both[1:]}, both, amd64, true},
		{"served and lacking, in any order", &policy.Fact{Serves: both[1:], Lacks: amd64}, both, both, false},
		{"nodes where there were none", &policy.Fact{Serves: amd64, Guessed: true}, nil, amd64, true},
		{"none, as before", &policy.Fact{Serves: amd64, Guessed: true}, nil, nil, false},
		{"none where there were some", &policy.Fact{Serves: amd64}, amd64, nil, true},
		{"nobody has looked at platforms", &policy.Fact{}, amd64, both, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.fact.Presence = policy.Present
				p := &nodesProber{counter: &counter{facts: policy.Facts{digested(): tc.fact}}, list: tc.before}
				s := newTestStore(p)
				defer s.Close()
				s.Presence(t.Context(), []mirrors.Location{digested()}, policy.Freshness{})
				p.mu.Lock()
				p.list = tc.after
				p.mu.Unlock()
				s.Presence(t.Context(), []mirrors.Location{digested()}, policy.Freshness{})
				if again := p.probed.Load() == 2; again != tc.again {
					t.Errorf("%d probes: asked again %v, want %v", p.probed.Load(), again, tc.again)
				}
			})
		})
	}
}

// TestLifetimeOfALack: a tag may be copied again, with all its platforms; a digest stands
// for the same platforms forever.
func TestLifetimeOfALack(t *testing.T) {
	l := Lifetimes{}.withDefaults()
	f := &policy.Fact{Presence: policy.Present, Serves: []string{"linux/amd64"}, Lacks: []string{"linux/arm64"}}
	if got := l.lifetimeOf(tagged(), f); got != 2*time.Second {
		t.Errorf("by tag: %v", got)
	}
	if got := l.lifetimeOf(digested(), f); got != time.Hour {
		t.Errorf("by digest: %v", got)
	}
}
