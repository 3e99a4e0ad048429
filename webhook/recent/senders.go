package recent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fair"
)

// Whoever can reach the port can send a review that no API server has made, and have an edit
// admitted that never comes: an edit that keeps others out as long as it might. So what is
// confirmed counts: a sender of whose edits one was seen in force is known, and goes first. Who has
// sent only such as never came is suspect, and slowed down, more with each. What those who are not
// known have admitted takes no more than a part of the list.
//
// A sender is an address, or "" for one who is authenticated otherwise.

const (
	// maxUnknown is how many pending edits there may be of all who are not known, freshMost of one
	// who has not sent any before, and suspectMost of one whose edits did not come.
	maxUnknown  = MaxEntries / 4
	freshMost   = 4
	suspectMost = 1
	// forgiven is how many edits in a row may not come of one who is not known, and trusted of one
	// who is, before that is held against them: another webhook may refuse what the guard admits,
	// and an object may be gone again before it is seen. Who was known does not become suspect.
	forgiven = 2
	trusted  = 8
	// firstPause is how long a suspect waits after the first edit that makes it one, twice as long
	// after each more, and longestPause at most.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// forgetAfter is for how long what did not come is remembered.
	forgetAfter = 10 * time.Minute
	// maxSenders bounds those who are remembered.
	maxSenders = 1024
)

// The ranks of senders, the first first. None is 0.
const (
	// RankKnown is that of a sender of whose edits one was seen in force.
	RankKnown = 1 + iota
	rankFresh
	rankSuspect
)

// A senders remembers what came of the edits of each sender. It is safe for concurrent use.
type senders struct {
	room *fair.Queue // for those who are not known

	mu   *sync.Mutex
	by   map[string]*sender
	news chan struct{} // closed when something changes
}

type sender struct {
	known   bool
	failed  int // in a row, edits that did not come
	pending int
	last    time.Time // when something was heard of it
	failure time.Time // when an edit did not come
}

func newSenders() senders {
	return senders{room: fair.New(maxUnknown), mu: new(sync.Mutex), by: map[string]*sender{}, news: make(chan struct{})}
}

func (s *sender) rank(now time.Time) int {
	failed := s.failed
	if now.Sub(s.failure) >= forgetAfter {
		failed = 0
	}
	switch {
	case s.known && failed < trusted:
		return RankKnown
	case s.known, failed <= forgiven:
		return rankFresh
	default:
		return rankSuspect
	}
}

// pause returns how long the sender has to wait for its next edit.
func (s *sender) pause(now time.Time) time.Duration {
	if s.rank(now) != rankSuspect {
		return 0
	}
	pause := min(firstPause<<min(s.failed-forgiven-1, 10), longestPause)
	return s.failure.Add(pause).Sub(now)
}

// most returns how many edits of the sender may be pending.
func (s *sender) most(now time.Time) int {
	if s.rank(now) == rankFresh {
		return freshMost
	}
	return suspectMost
}

// rank returns whose turn is first.
func (s *senders) rank(name string) int {
	if name == "" {
		return RankKnown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.by[name]; known != nil {
		return known.rank(time.Now())
	}
	return rankFresh
}

// of returns what is known of a sender. It is called with the lock held.
func (s *senders) of(name string) *sender {
	if s.by[name] == nil {
		s.forget()
		s.by[name] = new(sender)
	}
	s.by[name].last = time.Now()
	return s.by[name]
}

// forget makes room for one more: for the one that was not heard of for longest, of those who are
// not known if there are any.
func (s *senders) forget() {
	if len(s.by) < maxSenders {
		return
	}
	var oldest string
	for name, other := range s.by {
		first := s.by[oldest]
		switch {
		case other.pending > 0:
		case first == nil, first.known && !other.known, first.known == other.known && other.last.Before(first.last):
			oldest = name
		}
	}
	delete(s.by, oldest)
}

// A Seat is the right of a sender to have one more edit admitted. An edit that is admitted has it
// until it is over.
type Seat struct {
	edits  *Edits
	sender string
	room   bool // whether it takes a part of what those share who are not known
	taken  bool // by an edit, or given back
}

// Enter waits until the sender of ctx may have one more edit admitted, or ctx ends. Nobody who has
// the right to decide waits for it: it may take long. The caller calls Leave.
func (e *Edits) Enter(ctx context.Context) (*Seat, error) { return e.enter(ctx, newcomer) }

// Again is Enter for one that had a seat, and left it for others while it had no use for it. It goes
// before those of the same rank that had none.
func (s *Seat) Again(ctx context.Context) (*Seat, error) { return s.edits.enter(ctx, returning) }

// The claims to a seat, as package fair has them.
const (
	returning = iota
	newcomer
)

func (e *Edits) enter(ctx context.Context, claim int) (*Seat, error) {
	sender := fair.ClaimantOf(ctx).Name
	room, err := e.senders.enter(ctx, sender, claim)
	if err != nil {
		return nil, err
	}
	return &Seat{edits: e, sender: sender, room: room}, nil
}

// Leave gives the seat back, unless an edit has it. It may be called more than once, and of nil.
func (s *Seat) Leave() {
	if s == nil {
		return
	}
	s.edits.mu.Lock()
	taken := s.taken
	s.taken = true
	s.edits.mu.Unlock()
	if !taken {
		s.edits.senders.leave(s.sender, s.room)
	}
}

// enter waits until a sender may have one more edit admitted, or ctx ends. room says whether it takes
// a part of what those share who are not known.
func (s *senders) enter(ctx context.Context, name string, claim int) (room bool, err error) {
	if name == "" {
		return false, nil
	}
	for {
		wait, news := s.tryEnter(name)
		switch {
		case news == nil && wait == 0:
			return false, nil
		case news == nil:
			if err := s.room.Acquire(ctx, claim, 1); err != nil {
				s.leave(name, false)
				return false, fmt.Errorf("too many changes are admitted that have not come: %w", err)
			}
			return true, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, fmt.Errorf("changes from %s were admitted and never came: %w", name, ctx.Err())
		}
		timer.Stop()
	}
}

// tryEnter enters an edit of a sender if that may be now; wait is not 0 then if it needs room. Else
// it returns what to wait for.
func (s *senders) tryEnter(name string) (wait time.Duration, news <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sender, now := s.of(name), time.Now()
	if sender.rank(now) == RankKnown {
		sender.pending++
		return 0, nil
	}
	if pause := sender.pause(now); pause > 0 {
		return pause, s.news
	}
	if sender.pending >= sender.most(now) {
		return longestPause, s.news
	}
	sender.pending++
	return 1, nil
}

// leave takes note that an edit of a sender is not pending any more.
func (s *senders) leave(name string, room bool) {
	if name == "" {
		return
	}
	s.mu.Lock()
	s.of(name).pending--
	s.notify()
	s.mu.Unlock()
	if room {
		s.room.Release(1)
	}
}

// outcome takes note of what came of an edit.
func (s *senders) outcome(of own, stored bool) {
	if of.seat == nil || of.seat.sender == "" {
		return
	}
	s.mu.Lock()
	sender := s.of(of.seat.sender)
	if stored {
		sender.known, sender.failed = true, 0
	} else {
		sender.failed++
		sender.failure = time.Now()
	}
	s.mu.Unlock()
	s.leave(of.seat.sender, of.seat.room)
}

// notify wakes who waits. It is called with the lock held.
func (s *senders) notify() {
	close(s.news)
	s.news = make(chan struct{})
}
