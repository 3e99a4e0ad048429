package recent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
)

// Anyone who can reach the port can send a review that no API server has made, and have an edit
// admitted that is never stored but keeps others out as long as it might be. So senders are judged
// by their edits: one with an edit that was seen in force, as only an API server can have asked for it, is known, and goes
// first. One whose edits were never stored is suspect, and slowed down, more with each. The edits of all senders that are
// not known take no more than a part of the list.
//
// A sender is an address, or "" for one that is authenticated otherwise. A known sender stays known: replicas
// keep the addresses in the Lease, so that a new one does not take the API servers for strangers. A writer of
// the Lease can add some, and gains only room for reviews by it.

const (
	// maxUnknown bounds the pending edits of all senders that are not known, freshMost those of one
	// that has not sent any before, and suspectMost those of one whose edits were not stored.
	maxUnknown  = MaxEntries / 4
	freshMost   = 4
	suspectMost = 1
	// forgiven is how many edits in a row of a sender that is not known may fail to be stored, and
	// trusted how many of one that is, before that is held against it: another webhook may refuse what
	// the guard admits, and an object may be gone again before it is seen. A sender that was known does
	// not become suspect.
	forgiven = 2
	trusted  = 8
	// firstPause is how long a suspect waits after the edit that made it one; the pause doubles with
	// each further edit, up to longestPause.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// forgetAfter is for how long it is remembered that an edit was not stored.
	forgetAfter = 10 * time.Minute
	// maxSenders bounds the senders that are remembered, maxRemembered those in the Lease: many times as
	// many as there are API servers.
	maxSenders    = 1024
	maxRemembered = 16
)

// The ranks of senders, the first first. None is 0.
const (
	// RankKnown is that of a sender that is proved to be an API server.
	RankKnown = 1 + iota
	rankFresh
	rankSuspect
)

// senders remember whether the edits of each sender were stored. They are safe for concurrent use.
type senders struct {
	room *fairshare.Queue // for senders that are not known

	mu   *sync.Mutex
	by   map[string]*sender
	news chan struct{} // closed when something changes
}

type sender struct {
	known   bool
	failed  int // edits in a row that were not stored
	pending int
	last    time.Time // when it was last heard from
	failure time.Time // when an edit was last not stored
}

func newSenders() senders {
	return senders{room: fairshare.New(maxUnknown), mu: new(sync.Mutex), by: map[string]*sender{}, news: make(chan struct{})}
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

// rank returns the rank of a sender.
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

// get returns a sender by its name. It is called with the lock held.
func (s *senders) get(name string) *sender {
	if s.by[name] == nil {
		s.forget()
		s.by[name] = new(sender)
	}
	s.by[name].last = time.Now()
	return s.by[name]
}

// vouch makes senders known.
func (s *senders) vouch(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.by[name] == nil {
			s.get(name)
		}
		s.by[name].known = true
	}
}

// known returns the senders that are known, those first that were heard from last, and no more of them than
// are kept in the Lease.
func (s *senders) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, sender := range s.by {
		if sender.known {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(s.by[b].last.Compare(s.by[a].last), cmp.Compare(a, b)) })
	return names[:min(len(names), maxRemembered)]
}

// forget makes room for one more: it drops the sender that was not heard from for longest, of those
// that are not known if there are any.
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

// Rank returns the rank of a sender for package fairshare.
func (e *Edits) Rank(sender string) int { return e.senders.rank(sender) }

// rankOf returns the rank of the sender of ctx.
func (e *Edits) rankOf(ctx context.Context) int { return e.Rank(fairshare.ClaimantOf(ctx).Name) }

// Knows reports whether a sender is known.
func (e *Edits) Knows(sender string) bool { return e.Rank(sender) == RankKnown }

// Vouch takes note that a sender is an API server, as it has proved.
func (e *Edits) Vouch(sender string) { e.senders.vouch(sender) }

// A seat is the right of a sender to have one more edit admitted. An edit that is admitted has it
// until it is over.
type seat struct {
	edits  *Edits
	sender string
	room   bool // whether it takes a part of the room that senders share which are not known
	taken  bool // by an edit, or given back
}

// takeSeat waits until the sender of ctx may have one more edit admitted, or ctx ends. As that may
// take long, it must not be called with the right to decide. The caller calls leave. An edit that is
// returning, as it left its seat to others while it had no use for it, goes before those of the same rank that had
// none.
func (e *Edits) takeSeat(ctx context.Context, returning bool) (*seat, error) {
	claim := 1
	if returning {
		claim = 0
	}
	sender := fairshare.ClaimantOf(ctx).Name
	room, err := e.senders.reserve(ctx, sender, claim)
	if err != nil {
		return nil, err
	}
	return &seat{edits: e, sender: sender, room: room}, nil
}

// leave gives the seat back, unless an edit has it. It may be called more than once, and of nil.
func (s *seat) leave() {
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

// reserve waits until a sender may have one more edit admitted, or ctx ends. room says whether it takes
// a part of the room that unknown senders share.
func (s *senders) reserve(ctx context.Context, name string, claim int) (room bool, err error) {
	if name == "" {
		return false, nil
	}
	for {
		room, wait, news := s.tryReserve(name)
		if wait == 0 {
			if room && s.room.Acquire(ctx, claim, 1) != nil {
				s.leave(name, false)
				return false, fmt.Errorf("too many changes are admitted that have not been stored: %w", ctx.Err())
			}
			return room, nil
		}
		if err := pause.For(ctx, wait, news); err != nil {
			return false, fmt.Errorf("changes from %s were admitted and never stored: %w", name, err)
		}
	}
}

// tryReserve counts one more edit of a sender if that is possible now, and reports whether it needs room. Otherwise it
// returns what to wait for: some time, or news.
func (s *senders) tryReserve(name string) (room bool, wait time.Duration, news <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sender, now := s.get(name), time.Now()
	if sender.rank(now) == RankKnown {
		sender.pending++
		return false, 0, nil
	}
	if pause := sender.pause(now); pause > 0 {
		return false, pause, s.news
	}
	if sender.pending >= sender.most(now) {
		return false, longestPause, s.news
	}
	sender.pending++
	return true, 0, nil
}

// leave takes note that an edit of a sender is not pending any more.
func (s *senders) leave(name string, room bool) {
	if name == "" {
		return
	}
	s.mu.Lock()
	s.get(name).pending--
	s.notify()
	s.mu.Unlock()
	if room {
		s.room.Release(1)
	}
}

// outcome takes note of whether an edit was stored, and whether that proves its sender an API server: anyone may guess what
// an administrator is about to do.
func (s *senders) outcome(o own, stored, proven bool) {
	if o.seat == nil || o.seat.sender == "" {
		return
	}
	s.mu.Lock()
	sender := s.get(o.seat.sender)
	switch {
	case proven:
		sender.known, sender.failed = true, 0
	case !stored:
		sender.failed++
		sender.failure = time.Now()
	}
	s.mu.Unlock()
	s.leave(o.seat.sender, o.seat.room)
}

// notify wakes those that wait. It is called with the lock held.
func (s *senders) notify() {
	close(s.news)
	s.news = make(chan struct{})
}
