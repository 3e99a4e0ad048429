// Package recent keeps the edits that were admitted and may not be stored yet.
//
// The API server stores a change only after it was admitted. One that is reviewed in the
// meantime does not find it among the objects in force, so that each may be safe, but not both
// together. Who decides on a change therefore looks at the recent edits first, reads the
// configuration in force after that, judges the change with both, and adds it, which fails if
// another was added since:
//
//	look, err := edits.Look(ctx)
//	set := ... // read the configuration
//	others := look.Others(edit, set, read) // judge with them, and without
//	err = edits.Add(ctx, look, Change{Edit: edit, InForce: set, Read: read}) // ErrChanged: look again
//
// With a Lease, all replicas add to the same list: the API server takes an update of it only
// from who has seen the last one. That is why looking takes no request: who has not seen the last
// one finds out when it adds. Nothing is held between two requests, so a replica that dies
// keeps nobody out. What it leaves behind is at most an edit in the list, which for some
// seconds counts as one that may still be stored. Clocks are never compared: an edit ages from
// when this process first saw it.
//
// The list may be deleted, emptied or filled with garbage by whoever has the right to (lease.go).
// Therefore each replica follows it, and goes by every edit that was ever in it, until the cluster
// shows it or it cannot come any more; what has gone from the list for another reason is put back
// by whose it is. And whoever can reach the port can have edits admitted that no API server has
// asked about (senders.go).
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
	// MaxReadAge is the age beyond which what was read of the cluster is too old to admit a
	// change by where replicas share no list: another may have admitted something meanwhile.
	MaxReadAge = 250 * time.Millisecond
	// MaxEntries bounds the list. More than these at once have to wait for some to be stored.
	MaxEntries = 64
	// maxKnown bounds what is remembered of other replicas: what is in the list, and what has gone
	// from it in the last seconds.
	maxKnown = 4 * MaxEntries
	// again is how long to wait before the list is read again, for room in it or for an entry
	// that is not understood to go.
	again = 50 * time.Millisecond
	// maxOvertaken is how often an edit is written where the list has just become another, which mostly
	// means that something was taken off it; catchUpTime is how long this process may take to be told.
	maxOvertaken = 3
	catchUpTime  = time.Second
	// settleTime is how long what is followed anew is not relied on: what was in the list before
	// may have been lost, and those whose it is put it back within a sweep.
	settleTime = 2 * sweepEvery
)

// ErrChanged is returned by Add if the list is no longer what it was. Test with errors.Is.
var ErrChanged = errors.New("another change was admitted in the meantime")

// errUnusable is returned by a Store that cannot be used as things are set up, which trying
// again would not change.
var errUnusable = errors.New("cannot be used")

// errFull is returned by a Store for more than it can hold.
var errFull = errors.New("too many changes are admitted and not stored yet")

// An entry is an edit that was admitted, as a list has it.
type entry struct {
	// id tells it from all others, by is the replica that admitted it.
	id, by string
	edit   mirrors.Edit
	// raw is how the store has it; nil for one that it does not have yet.
	raw []byte
	// claim is the rank of the sender of one that waits to be admitted, 0 for an admitted one: see
	// Claim.
	claim int
	// unreadable is why it is not understood; newer, that a later version of the guard wrote it.
	// wholeList is set if it stands for a list that is not, which therefore cannot be written back.
	unreadable       string
	newer, wholeList bool
}

// A content is the content of a store: entries, and the object and the version of it that an update
// has to name. Later versions are greater, as resource versions are.
type content struct {
	uid, version string
	// absent is set where there is no such object.
	absent bool
	// writer is which program wrote it, as that says itself.
	writer  string
	entries []entry
}

func (c content) id() types.UID { return types.UID(c.uid) }

func (c content) same(other content) bool { return c.uid == other.uid && c.version == other.version }

// A store keeps a content that several processes share.
type store interface {
	read(context.Context) (content, error)
	// write replaces what was read as from. It returns ErrChanged if it is something else by
	// now, and what it holds afterwards.
	write(ctx context.Context, from content, entries []entry) (content, error)
	// try returns the error that a write of what was read would, and writes nothing.
	try(ctx context.Context, from content) error
	// follow passes on what it holds now, and then each version after that, in order and without
	// leaving any out, until ctx ends or it cannot go on.
	follow(ctx context.Context, seen func(content)) error
}

// Options are what New needs. The zero value is for a process that is the only one.
type Options struct {
	// Lease is what replicas share; nil for a process that is the only one.
	Lease *Lease
	// Stored reads what is in force of the objects of edits; it may leave out all else. Nil if it
	// cannot be read.
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
	senders  senders

	mu       sync.Mutex
	pending  []*pending           // what may still be stored, in the order in which it was seen
	over     map[string]time.Time // what is not, though it may be in the list: since when
	latest   content              // of shared, as last seen
	count    int                  // of what was ever added to pending
	overflow time.Time            // when there was more in the list than is remembered
	news     chan struct{}        // closed whenever pending or latest change
	link     link
	trouble  trouble
	// confirmed and unconfirmed count what came of own edits.
	confirmed, unconfirmed uint64
	running                bool // whether Run does
}

// A pending is an entry that may still be stored.
type pending struct {
	entry
	// at is since when it ages: when it was first seen or, of an own one, when it was admitted.
	at time.Time
	// listed is set while it is in the list, as last seen; lost, once it will not come any more.
	listed, lost bool
	own          *own // nil for another replica's
}

// An own entry is one of this process. It is told once this process knows that others know of it:
// only then is the change admitted.
type own struct {
	// told is set once it is admitted, shared once it was in the list, withdrawn if it is not to be
	// admitted after all.
	told, shared, withdrawn bool
	seat                    *Seat // nil for one that was added without
	confirms                func(mirrors.Set) bool
	done                    func(stored bool)
}

// A link is the state of the connection to what replicas share.
type link struct {
	// worked is set once it was shared. unread and unwritten are why it cannot be, since is since
	// when.
	worked            bool
	unread, unwritten error
	since             time.Time
	// tried says whether these say what came of using it.
	tried bool
	// followed is set while it is followed; settled, when that can be relied on.
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
		options: o, slot: fair.New(1), added: make(chan struct{}, 1), claims: make(chan struct{}, 1), senders: newSenders(),
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

// A Look is the recent edits as they were at one moment.
type Look struct {
	pending []*pending // what might still be stored
	count   int
	// shared is set if this is about all replicas.
	shared bool
	edits  *Edits
}

// Look looks at the recent edits, as far as this process has been told: Add finds out what it has
// not been told yet. An error means that nobody can tell what other replicas have
// admitted. Where there is nothing that replicas share, for lack of rights, Look makes do with
// what this process admitted, and Notes say so; but where something was shared before, only once
// nothing can come of that any more.
func (e *Edits) Look(ctx context.Context) (Look, error) {
	if look, ok := e.lookFollowed(); ok {
		return look, nil
	}
	return e.LookNow(ctx)
}

// LookNow is Look for who adds nothing: it holds all that was admitted when it began.
func (e *Edits) LookNow(ctx context.Context) (Look, error) { return e.lookNow(ctx, e.settled) }

// lookFollowed returns what this process was told of the list, if that is all there was in it.
func (e *Edits) lookFollowed() (look Look, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ok = e.shared != nil && !e.latest.absent && e.settled(e.latest) == nil
	return Look{pending: slices.Clone(e.pending), count: e.count, shared: true, edits: e}, ok
}

// lookNow is LookNow once isReached does not return an error for what the list is.
func (e *Edits) lookNow(ctx context.Context, isReached func(content) error) (Look, error) {
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
		return Look{}, fmt.Errorf("reading which changes other replicas have admitted: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return Look{pending: slices.Clone(e.pending), count: e.count, shared: true, edits: e}, nil
}

// alone returns what is known without asking.
func (e *Edits) alone() Look {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Look{pending: slices.Clone(e.pending), count: e.count, edits: e}
}

// LookHere is Look without other replicas: it returns what this process knows.
func (e *Edits) LookHere() Look { return e.alone() }

// reach waits until isReached does not return an error for c, or ctx ends.
func (e *Edits) reach(ctx context.Context, c content, isReached func(content) error) error {
	for {
		e.mu.Lock()
		err, news := isReached(c), e.news
		e.mu.Unlock()
		if err == nil || errors.Is(err, errUnusable) {
			return err
		}
		timer := time.NewTimer(again)
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

// followed returns why the list was not followed until it became c, nil if it was. It is called with
// the lock held.
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

// settled returns why it is not known what was in the list before it became c, nil if it is. It is
// called with the lock held.
func (e *Edits) settled(c content) error {
	if err := e.followed(c); err != nil {
		return err
	}
	if time.Now().Before(e.link.settled) {
		return errNotSettled
	}
	return nil
}

// LookUntil looks until it is known what other replicas have admitted, or ctx ends. An entry
// that cannot be read may conflict with anything, so it waits until that is over.
func (e *Edits) LookUntil(ctx context.Context) (Look, error) {
	for {
		look, err := e.Look(ctx)
		if err == nil {
			if err = look.unreadable(); err == nil {
				return look, nil
			}
		}
		if wait(ctx) != nil {
			return Look{}, err
		}
	}
}

// wait waits a moment, or until ctx ends, of which it returns the error.
func wait(ctx context.Context) error {
	timer := time.NewTimer(again)
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

// Known reports whether l holds what was admitted, and all of it can be read.
func (l Look) Known() bool { return l.edits != nil && l.unreadable() == nil }

// Fresh reports whether nothing was added since l, as far as this process knows; what was taken
// off the list changes nothing. Where
// replicas share nothing, read has to be young as well: it is when the configuration was read.
func (l Look) Fresh(read time.Time) bool {
	if !l.Known() {
		return false
	}
	e := l.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != l.count {
		return false
	}
	if l.shared {
		return e.settled(e.latest) == nil
	}
	return time.Since(read) <= MaxReadAge
}

// Others returns the edits that may not be stored yet, of other objects than that of edit.
// InForce is the configuration in force, read at a time not before l.
func (l Look) Others(edit mirrors.Edit, inForce mirrors.Set, read time.Time) []mirrors.Edit {
	e := l.edits
	e.Observe(inForce, read)
	e.mu.Lock()
	defer e.mu.Unlock()
	var others []mirrors.Edit
	// What is over by now may have become so after inForce was read, which then does not have it.
	for _, p := range l.pending {
		if p.unreadable == "" && p.claim == 0 && !p.lost && !p.edit.Overlaps(edit) && !p.isIn(inForce, read) {
			others = append(others, p.edit)
		}
	}
	return others
}

// isIn reports whether a configuration that was read holds p. One that was first seen later than it
// was read is not in it, even if it looks as if it were: that may be the state before an edit in
// between.
func (p *pending) isIn(set mirrors.Set, read time.Time) bool {
	return p.unreadable == "" && p.at.Before(read) && set.Holds(p.edit)
}

// Observe takes note of which edits were in force when the configuration was read, and of those
// that are too old to come any more.
func (e *Edits) Observe(inForce mirrors.Set, read time.Time) {
	e.mu.Lock()
	var outcomes []func()
	e.pending = slices.DeleteFunc(e.pending, func(p *pending) bool {
		switch {
		case p.own != nil && (p.claim != 0 || !p.own.told): // it is withdrawn, or admitted
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

// end takes note that p is over: it is in force in a configuration, or never came. It returns what
// tells of it, which is to be called without the lock.
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

// tally counts what came of an own edit.
func (e *Edits) tally(stored bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if stored {
		e.confirmed++
	} else {
		e.unconfirmed++
	}
}

// notify wakes who waits for news. It is called with the lock held.
func (e *Edits) notify() {
	close(e.news)
	e.news = make(chan struct{})
}

// unreadable returns an error if an entry that may still be stored cannot be read.
func (l Look) unreadable() error {
	e := l.edits
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
	// InForce is the configuration that it was judged with, Read when that was read.
	InForce mirrors.Set
	Read    time.Time
	// Confirms reports whether it is by this change that a configuration holds Edit; nil: always.
	Confirms func(mirrors.Set) bool
	// Done is told whether the change is in force, once that is known. It may be nil, and must not
	// block.
	Done func(stored bool)
	// Seat is what the sender has it admitted by, see Enter; nil: Add enters.
	Seat *Seat
}

// Add adds c, which was judged with what look held, and is admitted with that. It returns
// ErrChanged if something was added since; then c is not added, and has to be judged again. Any
// other error means that other replicas cannot know of c. What the configuration holds already is
// not added, as nothing changes.
func (e *Edits) Add(ctx context.Context, look Look, c Change) error {
	if c.InForce.Holds(c.Edit) {
		if c.Done != nil {
			c.Done(false)
		}
		return nil
	}
	if c.Seat == nil {
		seat, err := e.Enter(ctx)
		if err != nil {
			return err
		}
		defer seat.Leave()
		c.Seat = seat
	}
	p := &pending{
		entry: entry{id: rand.Text(), by: e.instance, edit: c.Edit}, at: time.Now(),
		own: &own{seat: c.Seat, confirms: c.Confirms, done: c.Done},
	}
	var err error
	if look.shared {
		err = e.share(ctx, look, p)
	} else {
		err = e.addHere(look, p)
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
	p.own.told, p.own.seat.taken = true, true
	p.at = time.Now()
	e.wake()
}

// addHere adds p to what only this process knows.
func (e *Edits) addHere(look Look, p *pending) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != look.count {
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
	e.pending = append(e.pending, p)
	e.count++
	e.notify()
	e.wake()
}

// share puts p into the list if nothing was added to that since look, until ctx ends. While it is
// under way, p counts here already, so that it is known for what it is when it is seen in the list.
func (e *Edits) share(ctx context.Context, look Look, p *pending) error {
	e.mu.Lock()
	if e.count != look.count {
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

// list returns what the list is to hold instead of c: what may still be stored, and what others
// wrote that cannot be read here, as long as it counts. Of what is not admitted yet it holds only
// adding, nil for none: write alone knows with what that was judged. It is called with the lock held.
func (e *Edits) list(c content, adding *pending) []entry {
	var entries []entry
	listed := map[string]bool{}
	for _, en := range c.entries {
		if _, over := e.over[en.id]; !over || en.newer {
			entries, listed[en.id] = append(entries, en), true
		}
	}
	for _, p := range e.pending {
		if isOurs := p.own != nil && !p.own.withdrawn; isOurs && (p.own.told || p.claim != 0 || p == adding) && !listed[p.id] {
			entries = append(entries, p.entry)
		}
	}
	return entries
}

// write writes p into the list unless something else was added to that by now, of which count is how
// much was. An answer may get lost on the way, and what was taken off the list a moment ago may not have
// been told yet, so what is there is looked at before it is tried again.
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
			return e.breakLink(err) // nil: it counts here, and that has to do
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

// next returns what to write where for p to be in it; ErrChanged if more than count was added, or may
// have been.
func (e *Edits) next(count int, p *pending) (from content, entries []entry, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != count || e.latest.absent || e.settled(e.latest) != nil {
		return content{}, nil, ErrChanged
	}
	return e.latest, e.list(e.latest, p), nil
}

// catchUp waits a moment for this process to be told of c.
func (e *Edits) catchUp(ctx context.Context, c content) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	return e.reach(ctx, c, e.settled)
}

// put writes entries where from is. There is no version between that and what it becomes.
func (e *Edits) put(ctx context.Context, from content, entries []entry) error {
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

// wake has Run look after the list.
func (e *Edits) wake() {
	select {
	case e.added <- struct{}{}:
	default:
	}
}

// AddHere adds a change that is admitted, for this process alone.
func (e *Edits) AddHere(c Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.pending) >= maxKnown {
		e.options.Log.Error(errFull, "Others cannot be judged with a change that is admitted all the same", "change", c.Edit.Subject())
		return
	}
	e.insert(&pending{
		entry: entry{id: rand.Text(), by: e.instance, edit: c.Edit}, at: time.Now(),
		own: &own{told: true, confirms: c.Confirms, done: c.Done},
	})
}

// AddAnyway adds a change that is admitted although nothing is known. It is told to other
// replicas if that can be done before ctx ends.
func (e *Edits) AddAnyway(ctx context.Context, c Change) {
	look, err := e.Look(ctx)
	for err == nil && look.shared {
		if err = e.Add(ctx, look, c); err == nil {
			return
		}
		if errors.Is(err, ErrChanged) && wait(ctx) == nil {
			look, err = e.Look(ctx)
		}
	}
	e.AddHere(c)
}
