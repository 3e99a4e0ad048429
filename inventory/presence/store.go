package presence

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Options configure a Store. The zero value is the default.
type Options struct {
	Lifetimes Lifetimes
	// Propose returns a Prober that trusts hostRoots instead of what the Store's own
	// trusts at single hosts; nil if none can be had. See Proposed.
	Propose func(hostRoots map[string]*x509.CertPool) ProposedProber

	maxFacts    int // that are remembered, and locations that wait to be looked up
	maxKept     int // locations that Keep keeps fresh
	atOnce      int // probes under way
	perRegistry int // those of one registry
}

// The default bounds; the others are in package limits.
const (
	// MaxFacts bounds the facts that are remembered, and the locations waiting to be looked up.
	MaxFacts = 100_000
	// MaxKept bounds the locations that Keep keeps fresh.
	MaxKept = MaxFacts / 2
	// linger is how long a location may still be looked up after the last caller asked
	// about it, for the next try to find the answer.
	linger = 2 * time.Minute
)

func (o Options) withDefaults() Options {
	o.Lifetimes = o.Lifetimes.withDefaults()
	o.maxFacts = cmp.Or(o.maxFacts, MaxFacts)
	o.maxKept = cmp.Or(o.maxKept, MaxKept)
	o.atOnce = cmp.Or(o.atOnce, limits.ProbesAtOnce)
	o.perRegistry = cmp.Or(o.perRegistry, limits.ProbesPerRegistry)
	return o
}

// A Store returns facts about locations: known ones that are fresh enough, or else by asking.
// It is safe for concurrent use, and must be closed.
type Store struct {
	prober  Prober
	options Options
	ctx     context.Context // for probes, which belong to no single caller
	cancel  context.CancelFunc

	mu       sync.Mutex // no call-outs under it
	memory   *memory
	refusals refusals
	jobs     map[mirrors.Location]*job
	queues   map[queueKey]*queue
	ready    []*queue // queues that may have a job to run, in turn
	running  int
	notes    map[string]string
	keeper   *keeper
	work     sync.WaitGroup
}

// NewStore returns a Store that asks p.
func NewStore(p Prober, o Options) *Store {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(context.Background()) // ended by Close
	s := &Store{
		prober:  p,
		options: o,
		ctx:     ctx,
		cancel:  cancel,
		memory:  newMemory(o.maxFacts),
		jobs:    map[mirrors.Location]*job{},
		queues:  map[queueKey]*queue{},
		notes:   map[string]string{},
		keeper:  &keeper{most: o.maxKept, topics: map[string]topic{}, due: map[mirrors.Location]time.Time{}},
	}
	s.keeper.generation = p.Generation()
	return s
}

// Close ends the probes under way and waits for them. Afterwards Presence answers from what
// was known. It may be called twice.
func (s *Store) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.work.Wait()
}

// Run keeps fresh what Keep named until ctx ends; then it closes the Store and returns nil. It
// must be called at most once, and only if something is to be kept fresh.
func (s *Store) Run(ctx context.Context) error {
	defer s.Close()
	pause.Every(ctx, keepTick, s.refresh)
	return nil
}

// Presence implements review.Registries: it returns the facts known about locs by the time ctx ends,
// the first ones most likely. It looks up those that are not fresh, each location once however many
// callers want it. A location without an answer when ctx ends is missing from the Facts, unless it was
// a miss a short while ago, which is Recalled; the lookup goes on all the same, for the next call to
// find. Unknown locations are looked up before such misses are looked up again.
func (s *Store) Presence(ctx context.Context, locs []mirrors.Location, fresh policy.Freshness) policy.Facts {
	facts, jobs := s.begin(locs, fresh)
	defer s.leave(jobs)
	for i, j := range jobs {
		select {
		case <-s.end(j):
			addFact(facts, j)
		case <-ctx.Done():
			s.recall(facts, locs, jobs[i:])
			return facts
		case <-s.ctx.Done():
			return facts
		}
	}
	return facts
}

// recall adds the facts of those jobs that have ended, and misses that are no longer fresh where there is no fact.
func (s *Store) recall(facts policy.Facts, locs []mirrors.Location, jobs []*job) {
	b, aged := s.basis(), agedFacts{}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range jobs {
		if j.ended {
			addFact(facts, j)
		}
	}
	for _, l := range locs {
		if _, known := facts[l]; known {
			continue
		}
		if m := s.recallable(l, b, now); m != nil {
			facts[l] = aged.of(m, now, true)
		}
	}
}

// agedFacts are the facts that a call repeats, once each: many locations share one, and a copy for each of 100,000
// would take 40 MB.
type agedFacts map[agedFact]*policy.Fact

type agedFact struct {
	fact     *policy.Fact
	age      time.Duration
	recalled bool
}

// of returns the fact of m with its age, if it is a miss, marked as Recalled or not.
func (a agedFacts) of(m *memo, now time.Time, recalled bool) *policy.Fact {
	key := agedFact{m.fact, now.Sub(m.learned).Round(time.Second), recalled}
	if a[key] == nil {
		f := *m.fact
		if f.Recalled = recalled; f.Presence != policy.Present && key.age > 0 {
			age := fmt.Sprintf("; that was %s ago", key.age)
			f.Detail = text.Cut(f.Detail, maxDetail-len(age)) + age
		}
		a[key] = &f
	}
	return a[key]
}

// recallable returns a memo of l that may be repeated although its state may have improved since: a
// miss, or signatures. These do not vanish, but an administrator may add to them and at once try again;
// so they are good enough to admit a change for as long as they live, and to deny it only as long as a
// miss is. It returns nil if there is none, if it is too old, or if it has just been learned. It is
// called with the lock held.
func (s *Store) recallable(l mirrors.Location, b basis, now time.Time) *memo {
	m := s.memory.facts[l]
	if m == nil || !b.carries(m) || now.Sub(m.learned) < s.options.Lifetimes.Absent {
		return nil
	}
	signed := l.Depth == mirrors.DepthSignatures && m.fact.Presence == policy.Present
	if signed && s.lives(m, now) || m.fact.Presence == policy.Absent && now.Sub(m.learned) < s.options.Lifetimes.Recalled {
		return m
	}
	return nil
}

func addFact(facts policy.Facts, j *job) {
	if j.fact != nil && j.fact.Presence != policy.Unknown {
		facts[j.location] = j.fact
	}
}

// begin returns the facts about locs that are fresh enough, and a job for each of the others.
func (s *Store) begin(locs []mirrors.Location, fresh policy.Freshness) (policy.Facts, []*job) {
	b, aged := s.basis(), agedFacts{}
	facts := make(policy.Facts, len(locs))
	var jobs []*job
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range locs {
		if l.ProposedTrust {
			facts[l] = new(policy.NotAskedAsProposed(now)) // see Proposed
			continue
		}
		known := s.recallable(l, b, now)
		answer := s.answer(l, b, now)
		switch {
		case answer != nil && (known == nil || fresh == policy.Freshness{}):
			facts[l] = answer
		case known != nil && fresh.Recalled:
			facts[l] = aged.of(known, now, true)
		case known != nil && !fresh.Since.IsZero() && !known.learned.Before(fresh.Since):
			facts[l] = aged.of(known, now, false)
		default:
			if j := s.job(l, known != nil, now); j != nil {
				jobs = append(jobs, j)
			}
		}
	}
	s.schedule()
	return facts, jobs
}

// answer returns the fact about l if it is fresh, and otherwise nil. A deeper look answers for a
// shallower one, if all was there: missing blobs say nothing else about the manifest. A miss is a miss
// at any depth. It is called with the lock held.
func (s *Store) answer(l mirrors.Location, b basis, now time.Time) *policy.Fact {
	if m := s.memory.facts[l]; m != nil && s.fresh(m, b, now) {
		return m.fact
	}
	other := l
	for other.Depth = mirrors.DepthExists; other.Depth <= mirrors.DepthBlobs; other.Depth++ {
		m := s.memory.facts[other]
		if m == nil || !s.fresh(m, b, now) {
			continue
		}
		if m.fact.Presence == policy.Absent || other.Depth > l.Depth && isGood(m.fact) {
			return m.fact
		}
	}
	return nil
}

func (s *Store) fresh(m *memo, b basis, now time.Time) bool { return b.carries(m) && s.lives(m, now) }

// SetLifetimes replaces those of Options. They count for known facts, too.
func (s *Store) SetLifetimes(l Lifetimes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Lifetimes = l.withDefaults()
}

func (s *Store) lives(m *memo, now time.Time) bool {
	return now.Sub(m.learned) < s.options.Lifetimes.lifetimeOf(m.location, m.fact)
}

// A basis holds what facts rest on besides a registry's answers.
type basis struct {
	generation uint64
	platforms  []string // of the nodes
}

// basis returns the current basis. It is called without the lock: the Prober may take a
// lock that probes hold.
func (s *Store) basis() basis {
	return basis{generation: s.prober.Generation(), platforms: s.prober.Platforms()}
}

// carries reports whether m still counts: a fact for some platforms says nothing about the platform of
// a new node.
func (b basis) carries(m *memo) bool {
	f := m.fact
	switch {
	case m.generation != b.generation:
		return false
	case f.Serves == nil && f.Lacks == nil, len(f.Missing) > 0:
		return true
	case f.Guessed || len(b.platforms) == 0:
		return f.Guessed && len(b.platforms) == 0
	}
	of := slices.Concat(f.Serves, f.Lacks)
	slices.Sort(of)
	return slices.Equal(of, b.platforms)
}

// maxDetail is the length of a Fact's Detail, in runes, as registry.Client cuts it.
const maxDetail = 200

// maxNote is the length of a note: the API server advises warnings of less than 120
// characters.
const maxNote = 119

// SetNote sets a note for the readers of any answer that rests on the Store, such as "the
// pull secret is missing; registries were asked anonymously". Each topic has one note; ""
// removes it.
func (s *Store) SetNote(topic, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.notes, topic)
	if note != "" {
		s.notes[topic] = text.OneLine(note, maxNote)
	}
}

// Notes implements review.NoteSource: the notes in the order of their topics.
func (s *Store) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return convert.Each(slices.Sorted(maps.Keys(s.notes)), func(topic string) string { return s.notes[topic] })
}
