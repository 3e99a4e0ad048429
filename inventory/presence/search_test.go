package presence

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A losingProber asks registries that lose images.
type losingProber struct {
	ProberFunc // the rest of a Prober

	mu    sync.Mutex
	lost  map[mirrors.Location]policy.Presence
	asked []mirrors.Location
	at    []time.Time
}

func (p *losingProber) Probe(ctx context.Context, l mirrors.Location) policy.Fact {
	p.mu.Lock()
	p.asked, p.at = append(p.asked, l), append(p.at, time.Now())
	found, lost := p.lost[l]
	p.mu.Unlock()
	if sleep(ctx, 10*time.Millisecond) != nil {
		return policy.Fact{}
	}
	if !lost {
		found = policy.Present
	}
	return policy.Fact{Presence: found, Time: time.Now()}
}

func (p *losingProber) lose(found policy.Presence, locs ...mirrors.Location) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil {
		p.lost = map[mirrors.Location]policy.Presence{}
	}
	for _, l := range locs {
		p.lost[l] = found
	}
}

// since returns what was asked since a time.
func (p *losingProber) since(when time.Time) (asked []mirrors.Location) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, at := range p.at {
		if !at.Before(when) {
			asked = append(asked, p.asked[i])
		}
	}
	return asked
}

// notices waits until s knows of n losses among locs, and returns when.
func notices(t *testing.T, s *Store, n int, locs []mirrors.Location) time.Time {
	t.Helper()
	for range 3600 {
		lost := 0
		for _, f := range s.Known(locs) {
			if f.Presence == policy.Absent {
				lost++
			}
		}
		if lost >= n {
			return time.Now()
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%d losses are not noticed in an hour", n)
	return time.Time{}
}

// kept returns n locations by digest in 20 repositories of a registry.
func kept(n int) []mirrors.Location {
	locs := make([]mirrors.Location, n)
	for i := range locs {
		locs[i].Ref = fmt.Sprintf("h.io/team%d/app%d@sha256:%064x", i%4, i%20, i)
	}
	return locs
}

const foundLife = 5 * time.Minute // as configured by default

// searching returns a Store that keeps locs, and knows them since a while.
func searching(t *testing.T, p Prober, locs []mirrors.Location) *Store {
	t.Helper()
	s := newTestStore(p, func(o *Options) { o.Lifetimes.PresentDigest = foundLife })
	t.Cleanup(running(t, s))
	s.Keep("live", locs, 0)
	time.Sleep(20*time.Minute + 500*time.Millisecond) // between two ticks
	return s
}

// TestSearch: where a registry loses many images at a time, one of them is soon noticed, and then the others.
func TestSearch(t *testing.T) {
	const all, lost = 2000, 50
	synctest.Test(t, func(t *testing.T) {
		p := &losingProber{}
		locs := kept(all)
		s := searching(t, p, locs)
		news := s.Losses()
		for i := range lost {
			p.lose(policy.Absent, locs[i*(all/lost+1)%all])
		}
		began := time.Now()
		first := notices(t, s, 1, locs)
		last := notices(t, s, lost, locs)
		t.Logf("the first of %d losses among %d is noticed after %s, the last after %s", lost, all, first.Sub(began), last.Sub(began))
		// One in 40 has to be met by chance: that it takes longer than 40 s happens once in 40,000 times.
		if first.Sub(began) > 40*time.Second {
			t.Errorf("the first is noticed after %s", first.Sub(began))
		}
		if took := last.Sub(first).Seconds(); took > all/limits.SearchedPerSecond+2 {
			t.Errorf("the others are noticed %v s later", took)
		}
		select {
		case <-news:
		case <-time.After(time.Hour):
			t.Fatal("it is not said")
		}
		if took := time.Since(first).Seconds(); took > all/limits.SearchedPerSecond+2 {
			t.Errorf("it is said %v s later", took)
		}
		for now := began; now.Before(last); now = now.Add(keepTick) {
			if n := len(p.since(now)) - len(p.since(now.Add(keepTick))); n > limits.SearchedPerSecond {
				t.Errorf("%d lookups in a second", n)
			}
		}
	})
}

// TestSearchEnds: a search goes on until a pass has found nothing. Then the registry has its rest, whatever it loses.
func TestSearchEnds(t *testing.T) {
	const all = 400
	synctest.Test(t, func(t *testing.T) {
		p := &losingProber{}
		locs := kept(all)
		s := searching(t, p, locs)
		usual := len(p.since(time.Now().Add(-time.Minute)))
		p.lose(policy.Absent, locs[0])
		notices(t, s, 1, locs)
		time.Sleep(all / limits.SearchedPerSecond * time.Second)
		p.lose(policy.Absent, locs[1:11]...)
		noticed := notices(t, s, 5, locs)
		if n := len(p.since(noticed.Add(time.Second))); n > usual {
			t.Errorf("%d lookups while the registry rests, %d in a minute are usual", n, usual)
		}
		last := notices(t, s, 11, locs)
		if took := last.Sub(noticed); took > 2*searchRest {
			t.Errorf("the others are noticed %s later", took)
		}
		time.Sleep(10 * time.Second) // for the pass that finds nothing
		end := time.Now()
		time.Sleep(time.Minute)
		if n := len(p.since(end)); n > usual*3/2 {
			t.Errorf("%d lookups in a minute after the search, %d are usual", n, usual)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.keeper.searches) != 0 {
			t.Error("the search is still remembered")
		}
	})
}

// TestSearchBeginsNearby: images of the same repository are asked about first, then those of repositories nearby.
func TestSearchBeginsNearby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &losingProber{}
		locs := kept(2000)
		s := searching(t, p, locs)
		p.lose(policy.Absent, locs[0])
		noticed := notices(t, s, 1, locs)
		time.Sleep(4 * time.Second)
		same, near, far := 0, 0, 0
		for _, l := range p.since(noticed) {
			switch repository := repositoryOf(l.Ref); {
			case repository == repositoryOf(locs[0].Ref):
				same++
			case strings.HasPrefix(repository, "h.io/team0/"):
				near++
			default:
				far++
			}
			// Of 100 in the repository, and of 400 others of the team. Some are due meanwhile, wherever they are.
			if same < 90 && near+far > 30 || near < 360 && far > 60 {
				t.Fatalf("%s comes after %d of the repository, %d of the team and %d others", l.Ref, same, near, far)
			}
		}
		if same < 90 || near < 360 {
			t.Errorf("%d of the repository and %d of the team were asked about", same, near)
		}
	})
}

// TestNoSearch: what does not speak for a loss that others share makes no search.
func TestNoSearch(t *testing.T) {
	for _, tt := range []struct {
		name  string
		found policy.Presence
		ttl   time.Duration
	}{
		{"access denied", policy.Denied, 0},
		{"out of reach", policy.Unreachable, 0},
		{"another image", policy.Mismatch, 0},
		{"of a refused change", policy.Absent, 10 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &losingProber{}
				locs := kept(400)
				s := searching(t, p, locs)
				if tt.ttl > 0 {
					s.Keep("refused: ImageDigestMirrorSet apps", locs, tt.ttl)
					s.Keep("live", nil, 0)
				}
				p.lose(tt.found, locs[0])
				before := len(p.since(time.Time{}))
				time.Sleep(foundLife)
				if n := len(p.since(time.Time{})) - before; n > 800 {
					t.Errorf("%d lookups of 400 images", n)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(s.keeper.searches) != 0 {
					t.Error("it is searched")
				}
			})
		})
	}
}

// TestKeepIsEven: as many facts are refreshed in any half minute as in any other, from the start on, so that a
// loss at any time meets a refresh soon.
func TestKeepIsEven(t *testing.T) {
	const all, window = 2000, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		p := &losingProber{}
		s := newTestStore(p, func(o *Options) { o.Lifetimes.PresentDigest = foundLife })
		defer running(t, s)()
		s.Keep("live", kept(all), 0)
		time.Sleep(time.Minute) // 40 s for all of them, and those that are due meanwhile
		want := all * int(window) / int(foundLife*7/10)
		for range 40 {
			start := time.Now()
			time.Sleep(window)
			if n := len(p.since(start)); n < want*2/3 || n > want*4/3 {
				t.Errorf("%d lookups in %s, want about %d", n, window, want)
			}
		}
	})
}

func TestNearness(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"h.io/shop/cart", "h.io/shop/cart", 14},
		{"h.io/shop/cart", "h.io/shop/pay", 2},
		{"h.io/shop/cart", "h.io/shopping/cart", 1},
		{"h.io/shop", "h.io/shop/cart", 2},
	} {
		if got := nearness(tt.a, tt.b); got != tt.want {
			t.Errorf("%s and %s: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
	for _, ref := range []string{"h.io:5000/shop/cart", "h.io:5000/shop/cart:1", "h.io:5000/shop/cart@sha256:00", "h.io:5000/shop/cart:1@sha256:00"} {
		if got := repositoryOf(ref); got != "h.io:5000/shop/cart" {
			t.Errorf("%s is in %s", ref, got)
		}
	}
}
