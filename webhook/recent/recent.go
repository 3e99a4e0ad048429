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
//	others := view.Others(edit, set, read) // judge with them, and without
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
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fair"
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
	// claim is the rank of the sender if the edit waits to be admitted, 0 if it is admitted: see
	// Claim.
	claim int
	// stranger is set if the sender was not known.
	stranger bool
	// unreadable is why it is not understood; newer is set if a later version of the guard wrote it.
	// wholeList is set if it stands for a list that is not understood, and so cannot be written back.
	unreadable       string
	newer, wholeList bool
}

// A content is the content of a store: entries, and the object and the version of it that an update
// has to name. Later versions are greater, as resource versions are.
type content struct {
	uid, version string
	// absent is set if there is no such object.
	absent bool
	// writer is the program that wrote it, by its own account.
	writer  string
	entries []entry
	// known are senders that a replica has known, some of them.
	known []string
}

func (c content) id() types.UID { return types.UID(c.uid) }

func (c content) same(other content) bool { return c.uid == other.uid && c.version == other.version }

// A store keeps a content that several processes share.
type store interface {
	read(context.Context) (content, error)
	// write replaces from, which was read before, except for its known senders, and returns the new content.
	// It returns ErrChanged if the store holds something else by now.
	write(ctx context.Context, from content, entries []entry) (content, error)
	// try returns the error that a write would, and writes nothing.
	try(ctx context.Context, from content) error
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
	slot     *fair.Queue   // the right to decide
	added    chan struct{} // wakes Run
	claims   chan struct{} // wakes it for claims
	delisted chan struct{} // wakes it for edits that others have taken off the list
	senders  senders

	mu       sync.Mutex
	pending  []*pending           // what may still be stored, in the order in which it was seen
	over     map[string]time.Time // since when edits that may be in the list are not pending
	latest   content              // of shared, as last seen
	count    int                  // of all that were ever added to pending
	overflow time.Time            // when the list last held more than is remembered
	news     chan struct{}        // closed whenever pending or latest change
	storing  time.Duration        // how long storing may take, as last found out
	link     link
	trouble  trouble
	// confirmed and unconfirmed count the outcomes of own edits.
	confirmed, unconfirmed uint64
	running                bool // whether Run is running
}

// A pending is an entry that may still be stored.
type pending struct {
	entry
	// at is the time from which it ages: when it was first seen or, if it is an own one, admitted.
	at time.Time
	// listed is set while it is in the list, as last seen; lost, once it will not be stored any more.
	listed, lost bool
	own          *own // nil for another replica's
	// emptied is when the list turned out to be empty without it, the zero time if it did not, and emptiedBy the program
	// that wrote that list, by its own account.
	emptied   time.Time
	emptiedBy string
}

// An own entry is one of this process. The change is admitted only once this process knows that
// other replicas know of it.
type own struct {
	// admitted is set once it is admitted, shared once it was in the list, withdrawn if it is not to be
	// admitted after all.
	admitted, shared, withdrawn bool
	since                       time.Time // when it was made, before it was shared
	seat                        *Seat     // nil for an entry that was added without one
	confirms                    func(mirrors.Set) bool
	done                        func(stored bool)
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
		options: o, slot: fair.New(1), added: make(chan struct{}, 1), claims: make(chan struct{}, 1), delisted: make(chan struct{}, 1), senders: newSenders(),
		over: map[string]time.Time{}, news: make(chan struct{}),
	}
	if o.Lease != nil {
		e.shared, e.instance = o.Lease, o.Lease.instance
	}
	return e
}

// Acquire waits for the right to decide within this process, until ctx ends. The caller calls
// Release.
func (e *Edits) Acquire(ctx context.Context) error {
	if err := e.slot.Acquire(ctx, 0, 1); err != nil {
		return fmt.Errorf("waiting for another change to be decided: %w", err)
	}
	return nil
}

// Release gives the right back.
func (e *Edits) Release() { e.slot.Release(1) }

// A View holds the recent edits as they were at one moment.
type View struct {
	pending []*pending // edits that might still be stored
	count   int
	// shared is set if it covers all replicas.
	shared bool
	edits  *Edits
}

// View returns the recent edits that this process knows of: Add finds out about those that it does
// not know of yet. An error means that it cannot be determined what other replicas have
// admitted. If replicas share nothing, for lack of rights, a View holds only
// what this process admitted, and Notes say so; but if something was shared before, only once
// none of that can be stored any more.
func (e *Edits) View(ctx context.Context) (View, error) {
	if view, ok := e.followedView(); ok {
		return view, nil
	}
	return e.CurrentView(ctx)
}

// CurrentView is View for callers that add nothing: it holds all edits that were admitted when it began.
func (e *Edits) CurrentView(ctx context.Context) (View, error) { return e.readView(ctx, e.settled) }

// followedView returns the list as this process has followed it, if it has seen all of it.
func (e *Edits) followedView() (view View, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ok = e.shared != nil && !e.latest.absent && e.settled(e.latest) == nil
	return View{pending: slices.Clone(e.pending), count: e.count, shared: true, edits: e}, ok
}

// readView is CurrentView, and waits until isReached returns no error for the content of the list.
func (e *Edits) readView(ctx context.Context, isReached func(content) error) (View, error) {
	if e.shared == nil {
		return e.alone(), nil
	}
	shared, err := e.shared.read(ctx)
	if err == nil {
		err = e.reach(ctx, shared, isReached)
	}
	if errors.Is(err, errUnusable) {
		if err = e.breakLink(err); err == nil {
			return e.alone(), nil
		}
	}
	if err != nil {
		return View{}, fmt.Errorf("reading which changes other replicas have admitted: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return View{pending: slices.Clone(e.pending), count: e.count, shared: true, edits: e}, nil
}

// alone returns the edits that this process knows of without asking.
func (e *Edits) alone() View {
	e.mu.Lock()
	defer e.mu.Unlock()
	return View{pending: slices.Clone(e.pending), count: e.count, edits: e}
}

// reach waits until isReached returns no error for c, or ctx ends.
func (e *Edits) reach(ctx context.Context, c content, isReached func(content) error) error {
	for {
		e.mu.Lock()
		err, news := isReached(c), e.news
		e.mu.Unlock()
		if err == nil || errors.Is(err, errUnusable) {
			return err
		}
		timer := time.NewTimer(pollInterval)
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", err, ctx.Err())
		}
		timer.Stop()
	}
}

var (
	errNotFollowed = errors.New("the list is not followed yet")
	errNotSettled  = errors.New("the list has just begun to be followed")
)

// followed returns nil if the list was followed until it became c, else an error that says why not. It
// is called with the lock held.
func (e *Edits) followed(c content) error {
	switch {
	case e.link.broken() != nil:
		return e.link.broken()
	case !e.link.followed || isOlder(e.latest.version, c.version):
		return errNotFollowed
	default:
		return nil
	}
}

// settled returns nil if it is known what was in the list before it became c, else an error that says
// why not. It is called with the lock held.
func (e *Edits) settled(c content) error {
	if err := e.followed(c); err != nil {
		return err
	}
	if time.Now().Before(e.link.settled) {
		return errNotSettled
	}
	return nil
}

// AwaitView waits until it is known what other replicas have admitted, or ctx ends. An entry
// that cannot be read may conflict with anything, so AwaitView waits until it is over.
func (e *Edits) AwaitView(ctx context.Context) (View, error) {
	for {
		view, err := e.View(ctx)
		if err == nil {
			if err = view.unreadable(); err == nil {
				return view, nil
			}
		}
		if wait(ctx) != nil {
			return View{}, err
		}
	}
}

// wait waits a moment, or until ctx ends, of which it returns the error.
func wait(ctx context.Context) error {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isOlder reports whether version a came before b.
func isOlder(a, b string) bool {
	if a == "" || b == "" {
		return a != b && a == ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// Known reports whether v holds what was admitted, and all of it can be read.
func (v View) Known() bool { return v.edits != nil && v.unreadable() == nil }

// Fresh reports whether, to this process's knowledge, nothing was added since v; what was taken off
// the list changes nothing. If replicas share nothing, read, the time when the configuration was
// read, must not be long ago either.
func (v View) Fresh(read time.Time) bool {
	if !v.Known() {
		return false
	}
	e := v.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != v.count {
		return false
	}
	if v.shared {
		return e.settled(e.latest) == nil
	}
	return time.Since(read) <= MaxReadAge
}

// Admitted returns v without the edits of this process that are about to be admitted, and may not be after
// all, and without those of senders that are not known, which may never have been asked for. A dry run is
// judged with the rest: nothing can go wrong after it, and it would be refused because of a change that
// never was.
func (v View) Admitted() View {
	e := v.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	v.pending = slices.DeleteFunc(slices.Clone(v.pending), func(p *pending) bool {
		return p.claim == 0 && (p.stranger || p.own != nil && !p.own.admitted)
	})
	return v
}

// Others returns the edits that may not be stored yet, of other objects than that of edit.
// InForce is the configuration in force, read at a time not before v.
func (v View) Others(edit mirrors.Edit, inForce mirrors.Set, read time.Time) []mirrors.Edit {
	e := v.edits
	e.Observe(inForce, read)
	e.mu.Lock()
	defer e.mu.Unlock()
	var others []mirrors.Edit
	// An edit that is over by now may have been stored after inForce was read, which then lacks it.
	for _, p := range v.pending {
		if p.unreadable == "" && p.claim == 0 && !p.lost && !p.edit.Overlaps(edit) && !p.isIn(inForce, read) {
			others = append(others, p.edit)
		}
	}
	return others
}

// isIn reports whether a configuration that was read holds p. An edit that was first seen after the
// configuration was read is not in it, even if it seems to be: that may be the state before another
// edit in between.
func (p *pending) isIn(set mirrors.Set, read time.Time) bool {
	return p.unreadable == "" && p.at.Before(read) && set.Holds(p.edit)
}

// Observe takes note of the edits that were in force when the configuration was read, and of those
// that are too old to be stored any more.
func (e *Edits) Observe(inForce mirrors.Set, read time.Time) {
	e.mu.Lock()
	var outcomes []func()
	e.pending = slices.DeleteFunc(e.pending, func(p *pending) bool {
		switch {
		case p.own != nil && (p.claim != 0 || !p.own.admitted): // it is withdrawn, or admitted
			return false
		case p.isIn(inForce, read):
			outcomes = append(outcomes, e.end(p, &inForce))
		case time.Since(p.at) >= MaxStoringTime:
			outcomes = append(outcomes, e.end(p, nil))
		default:
			return false
		}
		return true
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
		stored := in != nil && (own.confirms == nil || own.confirms(*in))
		e.tally(stored)
		e.senders.outcome(own, stored)
		if own.done != nil {
			own.done(stored)
		}
	}
}

// tally counts the outcome of an own edit.
func (e *Edits) tally(stored bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if stored {
		e.confirmed++
	} else {
		e.unconfirmed++
	}
}

// notify wakes those that wait for news. It is called with the lock held.
func (e *Edits) notify() {
	close(e.news)
	e.news = make(chan struct{})
}

// unreadable returns an error if an entry that may still be stored cannot be read.
func (v View) unreadable() error {
	e := v.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.overflow) < MaxStoringTime {
		return fmt.Errorf("%w: more than %d", errFull, maxKnown)
	}
	for _, p := range e.pending {
		if p.unreadable != "" && time.Since(p.at) < MaxStoringTime {
			return fmt.Errorf("another replica has admitted a change that cannot be read here: %s", p.unreadable)
		}
	}
	return nil
}

// A Change is an edit that was judged, and is to be admitted.
type Change struct {
	Edit mirrors.Edit
	// InForce is the configuration that it was judged with, Read the time when that was read.
	InForce mirrors.Set
	Read    time.Time
	// Confirms reports whether it is by this change that a configuration holds Edit; nil: always.
	Confirms func(mirrors.Set) bool
	// Done is called with whether the change is in force, once that is known. It may be nil, and must
	// not block.
	Done func(stored bool)
	// Seat is the sender's, see TakeSeat; if it is nil, Add takes one.
	Seat *Seat
}

// Add adds c, which was judged with the edits in view and is admitted by this call. It returns
// ErrChanged if something was added since; then c is not added, and has to be judged again. Any
// other error means that other replicas cannot know of c. An edit that the configuration holds
// already is not added, as nothing changes.
func (e *Edits) Add(ctx context.Context, view View, c Change) error {
	if c.InForce.Holds(c.Edit) {
		if c.Done != nil {
			c.Done(false)
		}
		return nil
	}
	if c.Seat == nil {
		seat, err := e.TakeSeat(ctx)
		if err != nil {
			return err
		}
		defer seat.Leave()
		c.Seat = seat
	}
	p := &pending{
		entry: entry{id: rand.Text(), by: e.instance, edit: c.Edit, stranger: e.Rank(c.Seat.sender) != RankKnown}, at: time.Now(),
		own: &own{seat: c.Seat, confirms: c.Confirms, done: c.Done},
	}
	var err error
	if view.shared {
		err = e.share(ctx, view, p)
	} else {
		err = e.addHere(view, p)
	}
	if errors.Is(err, errFull) && wait(ctx) == nil {
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if err == nil {
		e.admit(p)
	}
	return err
}

// admit takes note that p is admitted from now on.
func (e *Edits) admit(p *pending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.own.admitted, p.own.seat.taken = true, true
	p.at = time.Now()
	e.wake()
}

// addHere adds p to what only this process knows.
func (e *Edits) addHere(view View, p *pending) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != view.count {
		return ErrChanged
	}
	if len(e.pending) >= MaxEntries {
		return errFull
	}
	e.insert(p)
	return nil
}

// insert adds p. It is called with the lock held.
func (e *Edits) insert(p *pending) {
	if p.own != nil {
		p.own.since = p.at
	}
	e.pending = append(e.pending, p)
	e.count++
	e.notify()
	e.wake()
}

// share puts p into the list if nothing was added to that since view, until ctx ends. Meanwhile p
// counts here already, so that it is recognized when it is seen in the list.
func (e *Edits) share(ctx context.Context, view View, p *pending) error {
	e.mu.Lock()
	if e.count != view.count {
		e.mu.Unlock()
		return ErrChanged
	}
	e.insert(p)
	count := e.count
	e.mu.Unlock()
	err := e.write(ctx, count, p)
	if err != nil {
		e.remove(p)
	}
	return err
}

// list returns the entries that are to replace those of c: edits that may still be stored, and entries
// of others that cannot be read here, as long as they count. Of the edits that are not admitted yet it
// holds only adding, nil for none: write alone knows with what that was judged. It is called with the
// lock held.
func (e *Edits) list(c content, adding *pending) []entry {
	var entries []entry
	listed := map[string]bool{}
	for _, en := range c.entries {
		if _, over := e.over[en.id]; (!over || en.newer) && !e.isPassedOver(en) {
			entries, listed[en.id] = append(entries, en), true
		}
	}
	for _, p := range e.pending {
		if isOurs := p.own != nil && !p.own.withdrawn; isOurs && (p.own.admitted || p.claim != 0 || p == adding) && !listed[p.id] {
			entries = append(entries, p.entry)
		}
	}
	return entries
}

// write writes p into the list unless more than count edits were added to that by now. A response may
// get lost, and this process may not have seen yet that something was taken off the list, so the list
// is read before the next attempt.
func (e *Edits) write(ctx context.Context, count int, p *pending) error {
	for tries := 1; ; tries++ {
		from, entries, err := e.next(count, p)
		if err != nil {
			return err
		}
		err = e.put(ctx, from, entries)
		overtaken := errors.Is(err, ErrChanged)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errUnusable):
			return e.breakLink(err) // nil: it counts here only, which has to suffice
		case errors.Is(err, errFull) && wait(ctx) == nil:
			return fmt.Errorf("telling other replicas of this change: %w: %w", ErrChanged, err)
		case overtaken && tries == maxOvertaken, !overtaken && wait(ctx) != nil:
			return fmt.Errorf("telling other replicas of this change: %w", err)
		}
		now, readErr := e.shared.read(ctx)
		switch {
		case readErr != nil: // perhaps next time
		case slices.ContainsFunc(now.entries, func(other entry) bool { return other.id == p.id }):
			return nil // by one of these tries: nothing else writes it, see list
		case e.catchUp(ctx, now) != nil:
			return fmt.Errorf("telling other replicas of this change: %w", ErrChanged)
		}
	}
}

// next returns the entries to write, with p, and the content that they replace; ErrChanged if more than
// count edits were added, or may have been.
func (e *Edits) next(count int, p *pending) (from content, entries []entry, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != count || e.latest.absent || e.settled(e.latest) != nil {
		return content{}, nil, ErrChanged
	}
	return e.latest, e.list(e.latest, p), nil
}

// catchUp waits a moment for this process to see c.
func (e *Edits) catchUp(ctx context.Context, c content) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	return e.reach(ctx, c, e.settled)
}

// put replaces from by entries. There is no version between the two.
func (e *Edits) put(ctx context.Context, from content, entries []entry) error {
	from.known = e.senders.known()
	after, err := e.shared.write(ctx, from, entries)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.link.worked, e.link.tried = true, true
	if e.link.followed && e.latest.same(from) {
		e.follows(after, false)
	}
	return nil
}

// remove takes note that p is not admitted. It may be in the list, where Run finds it.
func (e *Edits) remove(p *pending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending = slices.DeleteFunc(e.pending, func(other *pending) bool { return other == p })
	e.over[p.id] = time.Now()
	p.own.withdrawn = true
	e.notify()
	e.wake()
}

// wake has Run sweep the list.
func (e *Edits) wake() {
	select {
	case e.added <- struct{}{}:
	default:
	}
}

// admitHere adds a change that is admitted. Run tells other replicas of it as soon as that is possible.
func (e *Edits) admitHere(c Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) >= maxKnown {
		e.options.Log.Error(errFull, "Others cannot be judged with a change that is admitted all the same", "change", c.Edit.Subject())
		return
	}
	e.insert(&pending{
		entry: entry{id: rand.Text(), by: e.instance, edit: c.Edit}, at: time.Now(),
		own: &own{admitted: true, confirms: c.Confirms, done: c.Done},
	})
}

// AddUnconditionally adds a change that is admitted without a verdict. It is shared with other
// replicas if that is possible before ctx ends.
func (e *Edits) AddUnconditionally(ctx context.Context, c Change) {
	view, err := e.View(ctx)
	for err == nil && view.shared {
		if err = e.Add(ctx, view, c); err == nil {
			return
		}
		if errors.Is(err, ErrChanged) && wait(ctx) == nil {
			view, err = e.View(ctx)
		}
	}
	e.admitHere(c)
}
