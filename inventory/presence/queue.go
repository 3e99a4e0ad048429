package presence

import (
	"context"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A job is the lookup of one location, for any number of callers. There may be 100,000.
type job struct {
	location mirrors.Location
	done     chan struct{} // see Store.end; nil as long as no caller waits for this very job
	fact     *policy.Fact  // once ended, nil if there is none
	asked    time.Time     // when a caller last did
	waiting  int32         // how often callers named it that still wait
	started  bool
	ended    bool
	regular  bool // see keeper.learned
}

// always is closed.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// end returns a channel that is closed once j has ended.
func (s *Store) end(j *job) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.ended:
		return always
	case j.done == nil:
		j.done = make(chan struct{})
	}
	return j.done
}

// A queue holds the jobs for one registry. It is one job wide until the registry has been
// seen to answer, so that one that is dead takes the place of one request and not of
// hundreds. Jobs run in the order in which callers named them, the most important first.
// Spreading them over repositories, as clients do that fetch a token for each, would save
// nothing here: tokens are fetched ahead, for many repositories at a time.
type queue struct {
	key        queueKey
	awaited    []*job             // callers wait for these
	doubtful   []*job             // callers wait for these, and a recalled miss is known
	abandoned  []*job             // all callers have left
	refreshes  []*job             // no caller has come yet: they keep facts fresh
	unprepared []mirrors.Location // those that nothing was prepared for yet
	running    int
	state      queueState
	ready      bool // whether it is in the Store's list of queues that have work
}

type queueKey struct {
	host     string
	insecure bool
}

type queueState int

const (
	opening queueState = iota // the registry is asked whether it answers
	opened                    // it does
	silent                    // it does not: see limits.ProbesOfSilentRegistry
)

// next returns the job to run next, nil if there is none; a refresh only if refresh is set.
// Jobs that were abandoned for longer than linger, or that are too many, are passed to drop.
func (q *queue) next(now time.Time, drop func(*job), refresh bool) *job {
	for _, jobs := range []*[]*job{&q.awaited, &q.doubtful} {
		if j := q.takeAwaited(jobs, drop); j != nil {
			return j
		}
	}
	j := takeWanted(&q.abandoned, now, drop)
	if j == nil && refresh {
		j = takeWanted(&q.refreshes, now, drop)
	}
	return j
}

// maxAbandoned bounds the abandoned jobs of one registry. It is more than a registry answers until
// a user tries again, and less than a tenant can name.
const maxAbandoned = 10_000

// takeAwaited takes the first job that a caller still waits for.
func (q *queue) takeAwaited(jobs *[]*job, drop func(*job)) *job {
	for len(*jobs) > 0 {
		j := shift(jobs)
		switch {
		case j.started:
		case j.waiting == 0 && len(q.abandoned) >= maxAbandoned:
			drop(j)
		case j.waiting == 0:
			q.abandoned = append(q.abandoned, j)
		default:
			return j
		}
	}
	return nil
}

// shift takes the first of queued, and clears its slot: the array may live for long.
func shift[T any](queued *[]*T) *T {
	first := (*queued)[0]
	(*queued)[0] = nil
	*queued = (*queued)[1:]
	return first
}

// takeWanted takes the first job that was not abandoned for too long.
func takeWanted(jobs *[]*job, now time.Time, drop func(*job)) *job {
	for len(*jobs) > 0 {
		j := shift(jobs)
		switch {
		case j.started:
		case now.Sub(j.asked) > linger:
			drop(j)
		default:
			return j
		}
	}
	return nil
}

// width returns how many jobs may run at a time.
func (q *queue) width(most int) int {
	switch q.state {
	case opened:
		return most
	case silent:
		return limits.ProbesOfSilentRegistry
	default:
		return 0
	}
}

// job returns the job for l, queued for a caller that waits, behind others if a recalled
// miss of it is known; nil if there are too many. It is called with the lock held.
func (s *Store) job(l mirrors.Location, known bool, now time.Time) *job {
	j := s.jobs[l]
	if j == nil {
		if len(s.jobs) >= s.options.maxFacts || s.ctx.Err() != nil {
			return nil
		}
		l.Ref = strings.Clone(l.Ref)
		j = &job{location: l}
		s.jobs[l] = j
	}
	j.asked = now
	j.waiting++
	if !j.started && j.waiting == 1 {
		queue := s.queue(l)
		if known {
			queue.doubtful = append(queue.doubtful, j)
		} else {
			queue.awaited = append(queue.awaited, j)
		}
		queue.unprepared = append(queue.unprepared, j.location)
		s.markReady(queue)
	}
	return j
}

func (s *Store) queue(l mirrors.Location) *queue {
	key := keyOf(l)
	if s.queues[key] == nil {
		s.queues[key] = &queue{key: key}
	}
	return s.queues[key]
}

func keyOf(l mirrors.Location) queueKey {
	return queueKey{l.Host(), l.Insecure}
}

func (s *Store) markReady(q *queue) {
	if !q.ready {
		q.ready = true
		s.ready = append(s.ready, q)
	}
}

// leave notes that a caller no longer waits for jobs.
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
	for len(s.ready) > 0 && s.running < s.options.atOnce && s.ctx.Err() == nil {
		q := shift(&s.ready)
		q.ready = false
		if s.start(q) {
			s.markReady(q)
		}
	}
}

// start starts a job of q and reports whether there may be another to start.
func (s *Store) start(q *queue) bool {
	if len(q.unprepared) > 0 {
		s.open(q)
		return false
	}
	width := q.width(s.options.perRegistry)
	if q.running >= width {
		return false // the end of a job puts it back
	}
	j := q.next(time.Now(), s.forget, q.running < max(1, width/limits.RefreshShare))
	if j == nil {
		s.retire(q)
		return false
	}
	j.started = true
	q.running++
	s.spawn(func() { s.run(q, j) })
	return true
}

// forget ends j with what was found, if anything. It is called with the lock held.
func (s *Store) forget(j *job) {
	j.started, j.ended = true, true // it may still be in a queue
	if j.done != nil {
		close(j.done)
	}
	delete(s.jobs, j.location)
	if len(s.jobs) == 0 {
		s.jobs = map[mirrors.Location]*job{} // a large map does not shrink
	}
}

// retire removes a queue that has nothing to do.
func (s *Store) retire(q *queue) {
	if q.running == 0 && q.state != opening && s.queues[q.key] == q {
		delete(s.queues, q.key)
	}
}

// spawn runs work as one of the probes under way. It is called with the lock held.
func (s *Store) spawn(work func()) {
	s.running++
	s.work.Go(work)
}

// finish frees the slot of what spawn started. It is called with the lock held.
func (s *Store) finish(q *queue) {
	s.running--
	s.markReady(q)
	s.schedule()
}

// open finds out whether the registry of q answers, before its jobs start, so that they
// find a connection to share, and tokens that are being fetched.
func (s *Store) open(q *queue) {
	locs := q.unprepared
	q.unprepared = nil
	q.state = opening
	s.spawn(func() {
		ok := s.prober.Prepare(s.ctx, locs)
		s.mu.Lock()
		defer s.mu.Unlock()
		q.state = silent
		if ok {
			q.state = opened
		}
		s.finish(q)
	})
}

// run looks j up and hands the answer to the callers that wait.
func (s *Store) run(q *queue, j *job) {
	b := s.basis()
	ctx, cancel := context.WithTimeout(s.ctx, limits.ProbeTimeout)
	found := s.prober.Probe(ctx, j.location)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	fact := s.refusals.shared(found)
	j.fact = fact
	if fact.Presence != policy.Unknown && !s.takesAway(j, fact, b) {
		s.learn(j, fact, b)
	}
	if q.state == silent && fact.Presence != policy.Unreachable && fact.Presence != policy.Unknown {
		q.state = opened
	}
	q.running--
	s.forget(j)
	s.finish(q)
}

// learn remembers what j has found. It is called with the lock held.
func (s *Store) learn(j *job, fact *policy.Fact, b basis) {
	before := s.memory.facts[j.location]
	known := before != nil && b.carries(before)
	m := &memo{location: j.location, fact: fact, learned: time.Now(), generation: b.generation}
	s.memory.put(*m)
	s.keeper.learned(m, s.options.Lifetimes.lifetimeOf(m.location, m.fact), j.regular && known)
}
