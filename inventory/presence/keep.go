package presence

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A keeper holds which facts are to be kept fresh, and when each is due to be looked up
// again. It is not safe for concurrent use.
type keeper struct {
	most       int // locations
	topics     map[string]topic
	due        map[mirrors.Location]time.Time
	generation uint64 // under which due was set
}

// A topic is one reason to keep facts fresh, and the locations it is about.
type topic struct {
	locations []mirrors.Location
	until     time.Time // zero: until it is replaced
	since     time.Time
}

const (
	// maxTopics is enough for the live configuration and one refused change of each
	// person who may be working on one.
	maxTopics = 32
	// keepTick is how often the Store looks for facts that are due: once a second, by limits.RefreshesPerSecond.
	keepTick = time.Second
	// keepRetry is how often bad news is looked up again: seldom enough for a registry in
	// trouble, and often enough for an administrator who copies images and tries again. It
	// varies by a quarter, at random.
	keepRetry = time.Minute
)

// set makes locs the locations of a topic, or ends it if there are none. Those that are in a memory share its references.
func (k *keeper) set(name string, locs []mirrors.Location, ttl time.Duration, now time.Time, in *memory) {
	delete(k.topics, name)
	t := topic{since: now, locations: make([]mirrors.Location, 0, min(len(locs), k.most))}
	for _, l := range locs {
		if l.ProposedTrust {
			continue
		}
		if len(t.locations) == k.most {
			break
		}
		if known := in.facts[l]; known != nil {
			l = known.location
		} else {
			l.Ref = strings.Clone(l.Ref) // it may be a part of a whole object that it would keep in memory
		}
		t.locations = append(t.locations, l)
	}
	if len(t.locations) > 0 {
		if ttl > 0 {
			t.until = now.Add(ttl)
		}
		k.topics[strings.Clone(name)] = t
	}
	k.drop(now)
	k.collect(now)
}

// drop ends expired topics and, if there are still too many, or of too many locations, those that would expire
// first.
func (k *keeper) drop(now time.Time) (ended bool) {
	for name, t := range k.topics {
		if !t.until.IsZero() && !now.Before(t.until) {
			delete(k.topics, name)
			ended = true
		}
	}
	locations := 0
	for i, name := range k.byWeight() {
		if i >= maxTopics || locations >= k.most {
			delete(k.topics, name)
			ended = true
			continue
		}
		locations += len(k.topics[name].locations)
	}
	return ended
}

// byWeight returns the topics, those that stay longest first, and among equals the latest
// first: a flood of refused changes must not displace the live configuration.
func (k *keeper) byWeight() []string {
	return slices.SortedFunc(maps.Keys(k.topics), func(a, b string) int {
		x, y := k.topics[a], k.topics[b]
		if x.until.IsZero() != y.until.IsZero() {
			if x.until.IsZero() {
				return -1
			}
			return 1
		}
		return cmp.Or(y.until.Compare(x.until), y.since.Compare(x.since), strings.Compare(a, b))
	})
}

// collect schedules what the topics name, up to the bound. Locations scheduled before keep their time.
func (k *keeper) collect(now time.Time) {
	due := make(map[mirrors.Location]time.Time, len(k.due))
	for _, name := range k.byWeight() {
		for _, l := range k.topics[name].locations {
			if len(due) == k.most {
				break
			}
			at, ok := k.due[l]
			if !ok {
				at = now
			}
			due[l] = at
		}
	}
	k.due = due
}

// learned sets when a location is due again, if it is one to keep fresh. Regular is whether it was due now.
func (k *keeper) learned(m *memo, life time.Duration, regular bool) {
	if _, kept := k.due[m.location]; kept {
		k.due[m.location] = m.learned.Add(refreshAfter(m.location.Ref, m.fact, life, regular))
	}
}

// refreshAfter returns the time after which a fact is looked up again. A good one is
// looked up at a random time before it expires; otherwise facts learned within one
// second would be looked up within one second forever. A fact learned while no lookup was due, as all
// are at the start, is looked up again as if it had been kept for long. So at any time, as many are
// looked up each second as at any other, and there is no long while after the start in which a loss
// goes unnoticed.
func refreshAfter(ref string, f *policy.Fact, life time.Duration, regular bool) time.Duration {
	good := isGood(f) && !mayImprove(ref, f)
	switch {
	case good && regular:
		return life/2 + jitter(life*2/5)
	case good:
		return jitter(lengthBiased(life/2, life*9/10, rand.Float64())) //nolint:gosec // not a secret
	default:
		return max(life, keepRetry*3/4+jitter(keepRetry/2))
	}
}

// lengthBiased returns how long an interval is in which a random moment falls, u of 1, where intervals are uniformly between
// two lengths: the long ones hold more moments.
func lengthBiased(least, most time.Duration, u float64) time.Duration {
	a, b := least.Seconds(), most.Seconds()
	return time.Duration(math.Sqrt(a*a+u*(b*b-a*a)) * float64(time.Second))
}

// isGood reports whether f says that an image is there in full.
func isGood(f *policy.Fact) bool { return f.Presence == policy.Present && len(f.Missing) == 0 }

// mayImprove reports whether copying the image again could turn f, about ref, into a hit. An index
// named by digest never lists more than it does.
func mayImprove(ref string, f *policy.Fact) bool {
	return len(f.Missing) > 0 || len(f.Lacks) > 0 && !mirrors.ByDigest(ref)
}

func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) //nolint:gosec // not a secret
}

// Keep makes the Store keep what it knows about locs fresh, while Run runs: facts are
// looked up again before they expire, in the background, after whatever a caller waits for.
// The topic says why ("live", "refused: ImageTagMirrorSet apps"); a later call for it
// replaces this one, no locations end it, and so does the end of ttl unless it is 0.
// The first locations, of topics without a ttl, are kept first; how many are kept is
// bounded by MaxKept. Locations with ProposedTrust are not.
func (s *Store) Keep(topic string, locs []mirrors.Location, ttl time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper.set(topic, locs, ttl, now, s.memory)
	for l, at := range s.keeper.due {
		if m := s.memory.facts[l]; m != nil && at.Equal(now) {
			s.keeper.learned(m, s.options.Lifetimes.lifetimeOf(l, m.fact), false)
		}
	}
}

// Known returns what the Store knows about locs without asking: good news as long as it
// is fresh, bad news until it is replaced, and nothing that was learned under other
// credentials or other trust. It is for callers that must not delay lookups a review
// waits for; Keep sees to it that there is something to know.
func (s *Store) Known(locs []mirrors.Location) policy.Facts {
	b := s.basis()
	facts := make(policy.Facts, len(locs))
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range locs {
		m := s.memory.facts[l]
		if m != nil && b.carries(m) && (!isGood(m.fact) || s.lives(m, now)) {
			facts[l] = m.fact
		} else if f := s.answer(l, b, now); f != nil {
			facts[l] = f
		}
	}
	return facts
}

// refresh looks up the locations that are due, no more than limits.RefreshesPerSecond for each registry, and leaves the
// rest to the next tick.
func (s *Store) refresh() {
	generation := s.prober.Generation() // it may take a lock that probes hold
	now := time.Now()
	asked := map[queueKey]int{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper.renew(generation, now)
	for l, at := range s.keeper.due {
		key := keyOf(l)
		if now.Before(at) || asked[key] == limits.RefreshesPerSecond || !s.queueRefresh(l, now) {
			continue
		}
		asked[key]++
		s.jobs[l].regular = true
		// Until there is an answer, which sets another time; there may be none.
		s.keeper.due[l] = now.Add(refreshAfter("", &policy.Fact{}, 0, false))
	}
	s.schedule()
}

// renew ends expired topics. Under other credentials, or other trust, everything is
// due.
func (k *keeper) renew(generation uint64, now time.Time) {
	if k.drop(now) {
		k.collect(now)
	}
	if k.generation == generation {
		return
	}
	k.generation = generation
	for l := range k.due {
		k.due[l] = now
	}
}

// queueRefresh queues a job for l behind those that callers wait for, and reports
// whether it did. It is called with the lock held.
func (s *Store) queueRefresh(l mirrors.Location, now time.Time) bool {
	if s.jobs[l] != nil || len(s.jobs) >= s.options.maxFacts/2 || s.ctx.Err() != nil {
		return false
	}
	j := &job{location: l, asked: now}
	s.jobs[l] = j
	queue := s.queue(l)
	queue.refreshes = append(queue.refreshes, j)
	queue.unprepared = append(queue.unprepared, l)
	s.markReady(queue)
	return true
}

// takesAway reports whether fact would replace good news only because there was no
// answer. A refresh that no caller asked for must not leave the Store knowing less.
func (s *Store) takesAway(j *job, fact *policy.Fact, b basis) bool {
	if j.waiting > 0 || fact.Presence != policy.Unreachable && fact.Presence != policy.Inconclusive {
		return false
	}
	m := s.memory.facts[j.location]
	return m != nil && m.fact.Presence == policy.Present && s.fresh(m, b, time.Now())
}
