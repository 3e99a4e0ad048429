package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Prober finds out what a node would get at a location. The Fact is Unknown if
// ctx ends first.
type Prober interface {
	Probe(ctx context.Context, l mirrors.Location) policy.Fact
}

// ProberFunc is a function that is a Prober.
type ProberFunc func(context.Context, mirrors.Location) policy.Fact

// Probe implements Prober.
func (f ProberFunc) Probe(ctx context.Context, l mirrors.Location) policy.Fact { return f(ctx, l) }

var _ Prober = (*Client)(nil)

// A generation is how a Prober tells that earlier answers may no longer hold.
type generation interface{ Generation() uint64 }

// StoreOptions say how facts are kept. The zero value is the default.
type StoreOptions struct {
	Lifetimes Lifetimes
	// MaxFacts bounds the facts that are kept, and the locations waiting to be
	// asked about; 0 means 100,000.
	MaxFacts int
	// Concurrency bounds the probes under way; 0 means 256.
	Concurrency int
	// PerRegistry bounds those of one registry; 0 means 64.
	PerRegistry int
	// ProbeTimeout bounds one probe, whoever waits for it; 0 means 30 s.
	ProbeTimeout time.Duration
	// Linger is how long after the last question about it a location may still be
	// looked up, for the next try to find the answer; 0 means 2 min.
	Linger time.Duration
	// MaxKept bounds the locations that Keep keeps fresh; 0 means half of MaxFacts.
	MaxKept int
	// KeepRate is how many of them are asked about a second at one registry, at most;
	// 0 means 50, a tenth of what Quay lets through.
	KeepRate float64
	// Path is a file in which facts survive a restart; "" for none. See Restore.
	Path string
}

func (o StoreOptions) withDefaults() StoreOptions {
	o.Lifetimes = o.Lifetimes.withDefaults()
	if o.MaxFacts <= 0 {
		o.MaxFacts = 100_000
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 256
	}
	if o.PerRegistry <= 0 {
		o.PerRegistry = 64
	}
	if o.ProbeTimeout <= 0 {
		o.ProbeTimeout = 30 * time.Second
	}
	if o.Linger <= 0 {
		o.Linger = 2 * time.Minute
	}
	if o.MaxKept <= 0 {
		o.MaxKept = o.MaxFacts / 2
	}
	if o.KeepRate <= 0 {
		o.KeepRate = 50
	}
	return o
}

// A Store answers what is where, from facts that are fresh enough and, for the
// rest, by asking. It is safe for concurrent use, and must be closed.
type Store struct {
	prober  Prober
	options StoreOptions
	ctx     context.Context // of what runs on behalf of nobody in particular
	cancel  context.CancelFunc

	mu      sync.Mutex // no call-outs under it
	memory  *memory
	jobs    map[mirrors.Location]*job
	lanes   map[laneKey]*lane
	ready   []*lane // lanes that may have a job to run, in turn
	running int
	notes   map[string]string
	keeper  *keeper
	work    sync.WaitGroup

	file file
}

// NewStore returns a Store that asks p.
func NewStore(p Prober, o StoreOptions) *Store {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(context.Background()) // ended by Close
	s := &Store{
		prober:  p,
		options: o,
		ctx:     ctx,
		cancel:  cancel,
		memory:  newMemory(o.MaxFacts),
		jobs:    map[mirrors.Location]*job{},
		lanes:   map[laneKey]*lane{},
		notes:   map[string]string{},
		keeper:  newKeeper(o.MaxKept),
		file:    file{path: o.Path, most: o.MaxFacts},
	}
	s.keeper.generation = s.generation()
	return s
}

// Close ends the probes under way, waits for them and saves what is known, where
// Restore has been called. Afterwards Presence knows what was known. It may be called
// twice.
func (s *Store) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.work.Wait()
	s.save()
}

// Run keeps fresh what Keep has named, and saves what is known from time to time, until
// ctx ends; then it closes the store and returns nil. It must be called once, or not at
// all where nothing is to be kept.
func (s *Store) Run(ctx context.Context) error {
	defer s.Close()
	refresh := time.NewTicker(keepTick)
	defer refresh.Stop()
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-refresh.C:
			s.refresh()
		case <-save.C:
			s.save()
		}
	}
}

// Presence implements review.Registries: it returns what is known about locs by the
// time ctx ends, the first ones most likely. What is not fresh is asked for, each
// location once however many callers want it. What was not answered when ctx ends
// is missing from the Facts, unless it was a miss a short while ago, which is Recalled; it
// is asked for all the same, for the next call to find. What nothing is known about is
// asked for before such misses are asked for again.
func (s *Store) Presence(ctx context.Context, locs []mirrors.Location) policy.Facts {
	facts, jobs := s.begin(locs)
	defer s.leave(jobs)
	for i, j := range jobs {
		select {
		case <-j.done:
			enter(facts, j)
		case <-ctx.Done():
			for _, j := range jobs[i:] {
				if j.finished() {
					enter(facts, j)
				}
			}
			s.recall(facts, locs)
			return facts
		case <-s.ctx.Done():
			return facts
		}
	}
	return facts
}

// Recall implements review.RecallSource: it is as Presence, but content with misses that were
// learned a short while ago, and marks them Recalled.
func (s *Store) Recall(ctx context.Context, locs []mirrors.Location) policy.Facts {
	recalled := policy.Facts{}
	s.recall(recalled, locs)
	known := func(l mirrors.Location) bool { _, ok := recalled[l]; return ok }
	facts := s.Presence(ctx, slices.DeleteFunc(slices.Clone(locs), known))
	maps.Copy(facts, recalled)
	return facts
}

// recall enters misses that are no longer fresh where there is no fact.
func (s *Store) recall(facts policy.Facts, locs []mirrors.Location) {
	b := s.basis()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range locs {
		if _, known := facts[l]; known {
			continue
		}
		m, ok := s.recallable(l, b, now)
		if !ok || s.fresh(m, b, now) {
			continue
		}
		f := m.fact
		f.Recalled = true
		age := fmt.Sprintf("; that was %s ago", now.Sub(m.learned).Round(time.Second))
		f.Detail = text.Cut(f.Detail, maxDetail-len(age)) + age
		facts[l] = f
	}
}

// recallable returns the miss that is known of l, if it is not too old to be repeated as
// what it is. It is called with the lock held.
func (s *Store) recallable(l mirrors.Location, b basis, now time.Time) (memo, bool) {
	m, ok := s.memory.get(l)
	return m, ok && m.fact.Presence == policy.Absent && b.carries(m) && now.Sub(m.learned) < s.options.Lifetimes.Recalled
}

func enter(facts policy.Facts, j *job) {
	if j.fact.Presence != policy.Unknown {
		facts[j.location] = j.fact
	}
}

func (j *job) finished() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// begin returns the fresh facts about locs, and a job for each of the others.
func (s *Store) begin(locs []mirrors.Location) (policy.Facts, []*job) {
	b := s.basis()
	facts := make(policy.Facts, len(locs))
	jobs := make([]*job, 0, len(locs))
	seen := make(map[*job]bool, len(locs))
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range locs {
		if l.ProposedTrust {
			facts[l] = notProposed.fact(now) // see Proposed
			continue
		}
		if f, ok := s.answer(l, b, now); ok {
			facts[l] = f
			continue
		}
		_, known := s.recallable(l, b, now)
		if j := s.job(l, known, now); j != nil && !seen[j] {
			seen[j] = true
			jobs = append(jobs, j)
		}
	}
	s.schedule()
	return facts, jobs
}

// answer returns the fact about l, if it is fresh. What was found by looking deeper
// answers for less, if all was there: blobs that are missing say nothing of what is
// otherwise known of the manifest. A miss is one however deep a look was meant to go. It
// is called with the lock held.
func (s *Store) answer(l mirrors.Location, b basis, now time.Time) (policy.Fact, bool) {
	if m, ok := s.memory.get(l); ok && s.fresh(m, b, now) {
		return m.fact, true
	}
	other := l
	for other.Depth = mirrors.DepthExists; other.Depth <= mirrors.DepthBlobs; other.Depth++ {
		m, ok := s.memory.get(other)
		if !ok || !s.fresh(m, b, now) {
			continue
		}
		if m.fact.Presence == policy.Absent || other.Depth > l.Depth && isGood(m.fact) {
			return m.fact, true
		}
	}
	return policy.Fact{}, false
}

func (s *Store) fresh(m memo, b basis, now time.Time) bool { return b.carries(m) && s.lives(m, now) }

func (s *Store) lives(m memo, now time.Time) bool {
	return now.Sub(m.learned) < s.options.Lifetimes.of(m.location.Ref, m.fact)
}

// A basis is what facts rest on beside what a registry answers.
type basis struct {
	generation uint64
	// platforms are those of the nodes. Nothing is known of them where aware is not set.
	platforms []string
	aware     bool
}

// basis returns the one at the moment. It is called without the lock: the Prober may
// take one that probes hold.
func (s *Store) basis() basis {
	b := basis{generation: s.generation()}
	if n, ok := s.prober.(interface{ platforms() []string }); ok {
		b.platforms, b.aware = n.platforms(), true
	}
	return b
}

func (s *Store) generation() uint64 {
	if g, ok := s.prober.(generation); ok {
		return g.Generation()
	}
	return 0
}

// carries reports whether m still answers the question: what is known of platforms says
// nothing of a node that has come since.
func (b basis) carries(m memo) bool {
	f := m.fact
	switch {
	case m.generation != b.generation:
		return false
	case !b.aware, f.Serves == nil && f.Lacks == nil, len(f.Missing) > 0:
		return true
	case f.Guessed || len(b.platforms) == 0:
		return f.Guessed && len(b.platforms) == 0
	}
	of := slices.Concat(f.Serves, f.Lacks)
	slices.Sort(of)
	return slices.Equal(of, b.platforms)
}

// job returns the job for l, queued for a caller who waits, behind others if something is
// known of it; nil if there are too many. It is called with the lock held.
func (s *Store) job(l mirrors.Location, known bool, now time.Time) *job {
	j := s.jobs[l]
	if j == nil {
		if len(s.jobs) >= s.options.MaxFacts || s.ctx.Err() != nil {
			return nil
		}
		l.Ref = strings.Clone(l.Ref)
		j = &job{location: l, done: make(chan struct{})}
		s.jobs[l] = j
	}
	j.asked = now
	j.waiting++
	if !j.started && j.waiting == 1 {
		lane := s.lane(l)
		if known {
			lane.again = append(lane.again, j)
		} else {
			lane.now = append(lane.now, j)
		}
		lane.fresh = append(lane.fresh, j.location)
		s.readyUp(lane)
	}
	return j
}

func (s *Store) lane(l mirrors.Location) *lane {
	key := keyOf(l)
	if s.lanes[key] == nil {
		s.lanes[key] = &lane{key: key}
	}
	return s.lanes[key]
}

func keyOf(l mirrors.Location) laneKey {
	host, _, _ := strings.Cut(l.Ref, "/")
	return laneKey{host, l.Insecure}
}

func (s *Store) readyUp(l *lane) {
	if !l.ready {
		l.ready = true
		s.ready = append(s.ready, l)
	}
}

// leave takes back that the caller waits for jobs.
func (s *Store) leave(jobs []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range jobs {
		j.waiting--
	}
}

// schedule starts what may be started, a job of each registry in turn. It is called
// with the lock held.
func (s *Store) schedule() {
	for len(s.ready) > 0 && s.running < s.options.Concurrency && s.ctx.Err() == nil {
		l := s.ready[0]
		s.ready = s.ready[1:]
		l.ready = false
		if s.start(l) {
			s.readyUp(l)
		}
	}
}

// start starts a job of l and reports whether there may be another to start.
func (s *Store) start(l *lane) bool {
	if len(l.fresh) > 0 {
		s.open(l)
		return false
	}
	width := l.width(s.options.PerRegistry)
	if l.running >= width {
		return false // the end of a job puts it back
	}
	j := l.next(time.Now(), s.options.Linger, s.forget, l.running < max(1, width/keepShare))
	if j == nil {
		s.retire(l)
		return false
	}
	j.started = true
	l.running++
	s.spawn(func() { s.run(l, j) })
	return true
}

// forget ends j, with whatever was found. It is called with the lock held.
func (s *Store) forget(j *job) {
	j.started = true // whatever queue it may still be in
	delete(s.jobs, j.location)
	close(j.done)
}

// retire removes a lane that has nothing to do.
func (s *Store) retire(l *lane) {
	if l.running == 0 && l.state != opening && s.lanes[l.key] == l {
		delete(s.lanes, l.key)
	}
}

// spawn runs work as one of the probes under way. It is called with the lock held.
func (s *Store) spawn(work func()) {
	s.running++
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		work()
	}()
}

// finish gives back the place of what spawn started. It is called with the lock
// held.
func (s *Store) finish(l *lane) {
	s.running--
	s.readyUp(l)
	s.schedule()
}

// open finds out whether the registry of l answers, before its jobs start, so that
// they find a connection to share and the tokens on their way.
func (s *Store) open(l *lane) {
	locs := l.fresh
	l.fresh = nil
	l.state = opening
	s.spawn(func() {
		ok := true
		if p, can := s.prober.(preparer); can {
			ok = p.Prepare(s.ctx, locs)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		l.state = broke
		if ok {
			l.state = opened
		}
		s.finish(l)
	})
}

// run looks j up and tells those who wait.
func (s *Store) run(l *lane, j *job) {
	b := s.basis()
	ctx, cancel := context.WithTimeout(s.ctx, s.options.ProbeTimeout)
	fact := s.prober.Probe(ctx, j.location)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	j.fact = fact
	if fact.Presence != policy.Unknown && !s.takesAway(j, fact, b) {
		m := memo{location: j.location, fact: fact, learned: time.Now(), generation: b.generation}
		s.memory.put(m)
		s.keeper.learned(m, s.options.Lifetimes.of(m.location.Ref, fact))
	}
	if l.state == broke && fact.Presence != policy.Unreachable && fact.Presence != policy.Unknown {
		l.state = opened
	}
	l.running--
	s.forget(j)
	s.finish(l)
}

const maxNote = 119 // the API server counts warnings from 120 characters on as long

// SetNote sets a remark for whoever reads an answer that rests on the store, such as
// "the pull secret is missing; registries were asked anonymously". Each topic has
// one; "" takes it back.
func (s *Store) SetNote(topic, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.notes, topic)
	if note != "" {
		s.notes[topic] = oneLine(note, maxNote)
	}
}

// Notes implements review.Noter: the notes in the order of their topics.
func (s *Store) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var notes []string
	for _, topic := range slices.Sorted(maps.Keys(s.notes)) {
		notes = append(notes, s.notes[topic])
	}
	return notes
}
