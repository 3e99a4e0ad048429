// Package recent keeps the edits that were admitted and may not be stored yet.
//
// The API server stores a change only after it was admitted. One that is reviewed in the
// meantime does not find it among the objects in force, so that each may be safe, but not both
// together. To decide on a change, a caller therefore takes a view of the recent edits first, reads
// the configuration in force after that, judges the change with both, and adds it, which fails if
// another was added since:
//
//	view, err := edits.View(ctx)
//	set := ... // read the configuration
//	lists := view.Alternatives(ctx, edit, set, read, false) // judge with each, and without
//	err = edits.Add(ctx, view, Change{Edit: edit, InForce: set, Read: read}) // ErrChanged: start again
//
// With a Lease, all replicas add to the same list: the API server accepts an update only from a
// client that has seen the last one. That is why a view takes no request: a replica that has missed
// the last update finds out when it adds. Nothing is held between two requests, so a replica that
// dies keeps no other out. It leaves at most one edit in the list, which for some
// seconds counts as one that may still be stored. Clocks are never compared: an edit ages from
// when this process first saw it.
//
// The list may be deleted, emptied or filled with garbage by any user with the right to (lease.go).
// Therefore each replica follows it, and considers every edit that was ever in it until the edit is
// in force or cannot be stored any more; an edit that disappears from the list for another reason is
// put back by the replica that admitted it. And anyone who can reach the port can have edits admitted
// that no API server has asked about (senders.go).
package recent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// MaxStoringTime is how long storing a change may take after its admission: the API server
	// gives a request that writes 34 s (requestTimeoutUpperBound in k8s.io/apiserver,
	// pkg/endpoints/handlers/rest.go). Mostly it is known much sooner, see Run.
	MaxStoringTime = 35 * time.Second
	// MaxReadAge bounds the age of the configuration by which a change is admitted if replicas share
	// no list: another replica may have admitted something meanwhile.
	MaxReadAge = 250 * time.Millisecond
	// MaxEntries bounds the list. Further changes wait for some of these to be stored.
	MaxEntries = 64
	// maxKnown bounds the edits of other replicas that are remembered: those in the list, and those
	// that disappeared from it in the last seconds.
	maxKnown = 4 * MaxEntries
	// pollInterval is the time until the list is read again, to wait for room in it or for an entry
	// that is not understood to go.
	pollInterval = 50 * time.Millisecond
	// maxOvertaken bounds the attempts to write an edit to a list that has just changed, mostly because
	// something was taken off it; catchUpTime bounds the wait until this process has seen that change.
	maxOvertaken = 3
	catchUpTime  = time.Second
	// settleTime is for how long a list that is followed anew is not relied on: entries may have been
	// lost before, and their replicas put them back within a sweep.
	settleTime = 2 * sweepEvery
)

// ErrChanged is returned by Add if the list is no longer what it was. Test with errors.Is.
var ErrChanged = errors.New("another change was admitted in the meantime")

// errUnusable is returned by a store that the cluster's setup makes unusable, which trying
// again would not change.
var errUnusable = errors.New("cannot be used")

// errFull is returned by a store for more than it can hold.
var errFull = errors.New("too many changes are admitted and not stored yet")

// An entry is an edit that was admitted, as a list has it.
type entry struct {
	// id tells it from all others, by is the replica that admitted it.
	id, by string
	edit   mirrors.Edit
	// raw is how the store has it; nil for one that it does not have yet.
	raw []byte
	// claim is the rank of the sender if the edit waits to be admitted, 0 if it is admitted.
	claim int
	// stranger is set if the sender was not known.
	stranger bool
	// unreadable is why it is not understood; newer is set if a later version of the guard wrote it, tooLarge if the list
	// had no room for its edit. WholeList is set if it stands for a list that is not understood, and so cannot be written back.
	unreadable                 string
	newer, tooLarge, wholeList bool
}

// A content is the content of a store: entries, and the object and the version of it that an update
// has to name. Later versions are greater, as resource versions are.
type content struct {
	uid, version string
	// absent is set if there is no such object.
	absent bool
	// writer is the program that wrote it, by its own account; "" for a guard.
	writer  string
	entries []entry
	// known are senders that a replica has known, some of them.
	known []string
}

func (c content) same(other content) bool { return c.uid == other.uid && c.version == other.version }

// A store keeps a content that several processes share.
type store interface {
	read(context.Context) (content, error)
	// write replaces from, which was read before, except for its known senders, and returns the new content.
	// It returns ErrChanged if the store holds something else by now. A dryRun, as in UpdateOptions, writes nothing.
	write(ctx context.Context, from content, entries []entry, dryRun ...string) (content, error)
	// follow passes on the content, and then each later version, in order and without
	// leaving any out, until ctx ends or it fails.
	follow(ctx context.Context, seen func(content)) error
}

// Options are what New needs. The zero value is for a process that is the only one.
type Options struct {
	// Lease is what replicas share; nil for a process that is the only one.
	Lease *Lease
	// Stored reads the state in force of the objects of edits; it may leave out everything else. Nil if
	// it cannot be read.
	Stored func(ctx context.Context, edits []mirrors.Edit) (mirrors.Set, error)
	// OtherWebhooks returns how long others may take to refuse what the guard has admitted; nil
	// if that is not known.
	OtherWebhooks func(context.Context) (time.Duration, error)
	// Log receives what goes wrong in the background.
	Log logr.Logger
}

// Edits are the recent edits. They are safe for concurrent use.
type Edits struct {
	options  Options
	shared   store // nil for none
	instance string
	slot     *fairshare.Queue // for one Turn
	added    chan struct{}    // wakes Run
	urgent   chan struct{}    // wakes it at once
	senders  senders

	mu       sync.Mutex
	pending  []*pending           // may still be stored, in the order in which they were seen
	over     map[string]time.Time // since when edits that may be in the list are not pending
	latest   content              // of shared, as last seen
	count    int                  // of all that were ever added to pending
	overflow time.Time            // when the list last held more than is remembered
	news     chan struct{}        // closed whenever pending or latest change
	storing  time.Duration        // how long storing may take, as last found out
	link     link
	trouble  trouble
	running  bool // whether Run is running
}

// A pending is an entry that may still be stored.
type pending struct {
	entry
	// at is the time from which it ages: when it was first seen or, if it is an own one, admitted.
	at time.Time
	// listed is set while it is in the list, as last seen; lost, once it will not be stored any more.
	listed, lost bool
	own          *own // nil for another replica's
}

// An own entry is one of this process. The change is admitted only once this process knows that
// other replicas know of it.
type own struct {
	// admitted is set once it is admitted, withdrawn if it is not to be admitted after all.
	admitted, withdrawn bool
	seat                *seat // nil for an entry that was added without one
	confirms            func(mirrors.Set) (made, proven bool)
	done                func(stored bool)
}

// A link is the state of the connection to what replicas share.
type link struct {
	// worked is set once something was shared. unread and unwritten are the reasons why nothing can be,
	// and since is the time of the first.
	worked            bool
	unread, unwritten error
	since             time.Time
	// tried is set once it was used, so that these reasons, or their absence, mean something.
	tried bool
	// followed is set while it is followed; settled is when that can be relied on.
	followed bool
	settled  time.Time
}

func (l *link) broken() error {
	if l.unread != nil {
		return l.unread
	}
	return l.unwritten
}

// New returns Edits without any.
func New(o Options) *Edits {
	e := &Edits{
		options: o, slot: fairshare.New(1), added: make(chan struct{}, 1), urgent: make(chan struct{}, 1), senders: newSenders(),
		over: map[string]time.Time{}, news: make(chan struct{}),
	}
	if o.Lease != nil {
		e.shared, e.instance = o.Lease, o.Lease.instance
	}
	return e
}

// Observe takes note of the edits that were in force when the configuration was read, and of those
// that are too old to be stored any more.
func (e *Edits) Observe(inForce mirrors.Set, read time.Time) {
	e.endIf(func(p *pending) (over bool, in *mirrors.Set) {
		switch {
		case p.own != nil && (p.claim != 0 || !p.own.admitted): // it is withdrawn, or admitted
			return false, nil
		case p.isIn(inForce, read):
			return true, &inForce
		default:
			return time.Since(p.at) >= MaxStoringTime, nil
		}
	})
}

// endIf takes note that edits are over, and tells of the outcomes. An edit that is over is in force in the
// configuration that isOver returns; nil if it was never stored.
func (e *Edits) endIf(isOver func(*pending) (over bool, in *mirrors.Set)) {
	e.mu.Lock()
	var outcomes []func()
	e.pending = slices.DeleteFunc(e.pending, func(p *pending) bool {
		over, in := isOver(p)
		if over {
			outcomes = append(outcomes, e.end(p, in))
		}
		return over
	})
	if len(outcomes) > 0 {
		e.notify()
	}
	e.mu.Unlock()
	for _, tell := range outcomes {
		tell()
	}
}

// end takes note that p is over: it is in force in a configuration, or was never stored. It returns a
// function that reports this, to be called without the lock.
func (e *Edits) end(p *pending, in *mirrors.Set) (tell func()) {
	e.over[p.id] = time.Now()
	p.lost = in == nil
	if p.own == nil {
		return func() {}
	}
	own := *p.own
	return func() {
		stored, proven := in != nil, false
		if stored && own.confirms != nil {
			stored, proven = own.confirms(*in)
		}
		e.senders.outcome(own, stored, proven)
		if own.done != nil {
			own.done(stored)
		}
	}
}

// notify wakes those that wait for news. It is called with the lock held.
func (e *Edits) notify() {
	close(e.news)
	e.news = make(chan struct{})
}

// signal wakes the reader of a channel with room for one signal.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
