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
//	err = edits.Add(ctx, look, edit, set, read) // ErrChanged: look again
//
// With a Lease, all replicas add to the same list: the API server takes an update of it only
// from who has seen the last one. Nothing is held between two requests, so a replica that dies
// keeps nobody out. What it leaves behind is at most an edit in the list, which for some
// seconds counts as one that may still be stored. Clocks are never compared: an edit ages from
// when this process first saw it.
package recent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/resourceversion"

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
	// again is how long to wait before the list is read again, for room in it or for an entry
	// that is not understood to go.
	again = 50 * time.Millisecond
)

// ErrChanged is returned by Add if the list is no longer what it was. Test with errors.Is.
var ErrChanged = errors.New("another change was admitted in the meantime")

// errUnusable is returned by a Store that cannot be used as things are set up, which trying
// again would not change.
var errUnusable = errors.New("cannot be used")

// errFull is returned by a Store for more than it can hold.
var errFull = errors.New("too many changes are admitted and not stored yet")

// An entry is an edit that was admitted.
type entry struct {
	// id tells it from all others, by is the replica that admitted it.
	id, by string
	edit   mirrors.Edit
	// raw is how the store has it; nil for one that it does not have yet.
	raw []byte
	// unreadable is why it is not understood. wholeList is set if it stands for a list that is
	// not, which therefore cannot be written back.
	unreadable string
	wholeList  bool
}

// A content is what a store holds: entries, and the version that an update has to name, ""
// before the first one. Later versions are greater, as resource versions are.
type content struct {
	version string
	entries []entry
}

// A store keeps a content that several processes share.
type store interface {
	read(context.Context) (content, error)
	// write replaces what was read as from. It returns ErrChanged if it is something else by
	// now, and what it holds afterwards.
	write(ctx context.Context, from content, entries []entry) (content, error)
	// try returns the error that a write of what was read would, and writes nothing.
	try(ctx context.Context, from content) error
}

// Options are what New needs. The zero value is for a process that is the only one.
type Options struct {
	// Lease is what replicas share; nil for a process that is the only one.
	Lease *Lease
	// InForce reads the configuration in force, nil if it cannot be read.
	InForce func(context.Context) (mirrors.Set, error)
	// OtherWebhooks returns how long others may take to refuse what the guard has admitted; nil
	// if that is not known.
	OtherWebhooks func(context.Context) (time.Duration, error)
	// Log receives what goes wrong in the background.
	Log logr.Logger
}

// Edits are the recent edits. They are safe for concurrent use.
type Edits struct {
	options Options
	shared  store // nil for none
	slot    chan struct{}
	added   chan struct{} // wakes Run

	mu     sync.Mutex
	seen   map[string]sighting // of entries, by id
	own    map[string]*ownEdit
	latest content // of shared, as last seen
	local  []entry // what was added while there is nothing shared
	count  int     // of changes of local
	broken error   // why shared cannot be used; nil if it can
	tried  bool    // whether broken says what came of using shared
}

// A sighting is when this process first saw an entry, and whether it has seen it stored since.
type sighting struct {
	at     time.Time
	stored bool
}

// An ownEdit is one that this process admits. It is listed once it was seen among what is
// shared, and told once this process knows that: only then is the change admitted.
type ownEdit struct {
	edit         mirrors.Edit
	listed, told bool
}

// New returns Edits without any.
func New(o Options) *Edits {
	e := &Edits{
		options: o, slot: make(chan struct{}, 1), added: make(chan struct{}, 1),
		seen: map[string]sighting{}, own: map[string]*ownEdit{},
	}
	if o.Lease != nil {
		e.shared = o.Lease
	}
	return e
}

// Acquire waits for the right to decide within this process, until ctx ends. The caller calls
// Release.
func (e *Edits) Acquire(ctx context.Context) error {
	select {
	case e.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another change to be decided: %w", ctx.Err())
	}
}

// Release gives the right back.
func (e *Edits) Release() { <-e.slot }

// A Look is the recent edits as they were at one moment.
type Look struct {
	content content // of what is shared
	local   []entry
	count   int
	// at is when it began. shared is set if it holds what every replica admitted before that.
	at     time.Time
	shared bool
	edits  *Edits
}

// Look looks at the recent edits. An error means that nobody can tell what other replicas have
// admitted. Where there is nothing that replicas share, for lack of rights, Look makes do with
// what this process admitted, and Notes say so.
func (e *Edits) Look(ctx context.Context) (Look, error) {
	at := time.Now()
	var shared content
	err := errUnusable
	if e.shared != nil {
		shared, err = e.shared.read(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && !errors.Is(err, errUnusable) {
		return Look{}, fmt.Errorf("reading which changes other replicas have admitted: %w", err)
	}
	if err != nil {
		e.note(err)
	}
	look := Look{content: shared, local: slices.Clone(e.local), count: e.count, at: at, shared: err == nil, edits: e}
	e.remember(shared, at)
	return look, nil
}

// LookUntil looks until it is known what other replicas have admitted, or ctx ends. An entry
// that cannot be read may conflict with anything, so it waits until that is gone.
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

// remember takes note of what is shared as it was read at a time. Answers may overtake each
// other; an older one says nothing about what was added since.
func (e *Edits) remember(c content, at time.Time) {
	if isOlder(c.version, e.latest.version) {
		return
	}
	e.latest = c
	present := map[string]bool{}
	for _, en := range slices.Concat(c.entries, e.local) {
		present[en.id] = true
		if _, ok := e.seen[en.id]; !ok {
			e.seen[en.id] = sighting{at: at}
		}
	}
	for id, own := range e.own {
		own.listed = own.listed || present[id]
		if own.listed && !present[id] {
			delete(e.own, id)
		}
	}
	maps.DeleteFunc(e.seen, func(id string, _ sighting) bool { return !present[id] && e.own[id] == nil })
}

// isOlder reports whether version a came before b.
func isOlder(a, b string) bool {
	if a == "" || b == "" {
		return false // the list was not there
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// note keeps why nothing is shared, and says it once.
func (e *Edits) note(err error) {
	if e.shared == nil {
		return
	}
	if (err == nil) != (e.broken == nil) {
		if err != nil {
			e.options.Log.Error(err, "Replicas do not share which changes they admit")
		} else {
			e.options.Log.Info("Replicas share which changes they admit")
		}
	}
	e.broken, e.tried = err, true
}

// Notes say what keeps replicas from sharing their recent edits.
func (e *Edits) Notes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken == nil {
		return nil
	}
	return []string{fmt.Sprintf("changes made at the same moment through different replicas are not judged together (%v): apply the guard's manifests anew", e.broken)}
}

// Known reports whether l holds what was admitted, and all of it can be read.
func (l Look) Known() bool { return l.edits != nil && l.unreadable() == nil }

// Fresh reports whether nothing was added since l, as far as this process knows. Where
// replicas share nothing, read has to be young as well: it is when the configuration was read.
func (l Look) Fresh(read time.Time) bool {
	if !l.Known() {
		return false
	}
	e := l.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != l.count || l.shared && e.latest.version != l.content.version {
		return false
	}
	return l.shared || time.Since(read) <= MaxReadAge
}

// Others returns the edits that may not be stored yet, of other objects than that of edit.
// InForce is the configuration in force, read at a time not before l.
func (l Look) Others(edit mirrors.Edit, inForce mirrors.Set, read time.Time) []mirrors.Edit {
	var others []mirrors.Edit
	for _, en := range l.pending(inForce, read) {
		if en.unreadable == "" && !en.edit.Overlaps(edit) {
			others = append(others, en.edit)
		}
	}
	return others
}

// Observe takes note of which edits were in force when the configuration was read.
func (e *Edits) Observe(inForce mirrors.Set, read time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept(e.latest.entries, inForce, read)
	e.kept(e.local, inForce, read)
}

// pending returns the entries that count.
func (l Look) pending(inForce mirrors.Set, read time.Time) []entry {
	e := l.edits
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(e.kept(l.content.entries, inForce, read), e.kept(l.local, inForce, read)...)
}

// kept returns the entries that count, with what this process knows of them. One that was
// first seen later than the configuration was read is kept, even if the configuration looks as
// if it were in force: that may be the state before an edit in between.
func (e *Edits) kept(entries []entry, inForce mirrors.Set, read time.Time) []entry {
	var kept []entry
	for _, en := range entries {
		if own := e.own[en.id]; own != nil {
			en.edit, en.unreadable = own.edit, ""
		}
		seen, ok := e.seen[en.id]
		if ok && en.unreadable == "" && seen.at.Before(read) && inForce.Holds(en.edit) {
			seen.stored = true
			e.seen[en.id] = seen
		}
		if !seen.stored && (!ok || time.Since(seen.at) < MaxStoringTime) {
			kept = append(kept, en)
		}
	}
	return kept
}

// unreadable returns an error if an entry that counts cannot be read.
func (l Look) unreadable() error {
	for _, en := range l.pending(mirrors.Set{}, time.Time{}) {
		if en.unreadable != "" {
			return fmt.Errorf("another replica has admitted a change that cannot be read here: %s", en.unreadable)
		}
	}
	return nil
}

// Add adds edit, which was judged with what look held and with inForce, read at a time not
// before look. It returns ErrChanged if something was added since; then edit is not added, and
// has to be judged again. Any other error means that other replicas cannot know of edit. Edit
// replaces earlier edits of the same object.
func (e *Edits) Add(ctx context.Context, look Look, edit mirrors.Edit, inForce mirrors.Set, read time.Time) error {
	en := entry{id: rand.Text(), edit: edit}
	if !look.shared {
		return e.addLocal(look, en)
	}
	e.mu.Lock()
	entries := e.kept(look.content.entries, inForce, read)
	e.own[en.id] = &ownEdit{edit: edit}
	e.seen[en.id] = sighting{at: time.Now()}
	e.mu.Unlock()
	entries = slices.DeleteFunc(entries, func(old entry) bool { return old.unreadable == "" && old.edit.Overlaps(edit) })
	return e.write(ctx, look, append(entries, en), en)
}

// write puts entries where look was, among them en, until ctx ends. An answer may get lost on
// the way, so what is there is looked at before it is tried again.
func (e *Edits) write(ctx context.Context, look Look, entries []entry, en entry) error {
	for {
		err := e.put(ctx, look.content, entries)
		switch {
		case err == nil:
			e.tell(en.id)
			return nil
		case errors.Is(err, errUnusable):
			e.abandon(en.id)
			return e.addLocal(look, en)
		case errors.Is(err, errFull) && wait(ctx) == nil:
			err = fmt.Errorf("%w: %w", ErrChanged, err)
		}
		if errors.Is(err, ErrChanged) || wait(ctx) != nil {
			e.abandon(en.id)
			return fmt.Errorf("telling other replicas of this change: %w", err)
		}
		now, readErr := e.shared.read(ctx)
		switch {
		case readErr != nil: // perhaps next time
		case slices.ContainsFunc(now.entries, func(other entry) bool { return other.id == en.id }):
			e.know(now)
			e.tell(en.id)
			return nil
		case now.version != look.content.version:
			e.abandon(en.id)
			return fmt.Errorf("telling other replicas of this change: %w", ErrChanged)
		}
	}
}

// know remembers what is shared.
func (e *Edits) know(c content) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remember(c, time.Now())
}

// tell takes note that others know of an own edit, which is admitted now and ages from now on.
func (e *Edits) tell(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if own := e.own[id]; own != nil {
		own.told = true
		e.seen[id] = sighting{at: time.Now()}
	}
	e.wake()
}

// wake has Run look after the list.
func (e *Edits) wake() {
	select {
	case e.added <- struct{}{}:
	default:
	}
}

// abandon forgets that an edit is this process' own: it was not admitted. It may be in the list
// all the same, where Run finds it.
func (e *Edits) abandon(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.own, id)
	e.wake()
}

// addLocal adds en to what only this process knows.
func (e *Edits) addLocal(look Look, en entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count != look.count {
		return ErrChanged
	}
	e.addUnseen(en)
	return nil
}

func (e *Edits) addUnseen(en entry) {
	e.local = slices.DeleteFunc(e.local, func(old entry) bool {
		return old.edit.Overlaps(en.edit) || time.Since(e.seen[old.id].at) >= MaxStoringTime
	})
	e.local = append(e.local, en)
	e.local = slices.Delete(e.local, 0, max(0, len(e.local)-MaxEntries))
	e.count++
	e.seen[en.id] = sighting{at: time.Now()}
	e.wake()
}

// AddAnyway adds an edit that is admitted although nothing is known. It is told to other
// replicas if that can be done before ctx ends.
func (e *Edits) AddAnyway(ctx context.Context, edit mirrors.Edit) {
	look, err := e.Look(ctx)
	for err == nil && look.shared {
		if err = e.Add(ctx, look, edit, mirrors.Set{}, time.Time{}); err == nil {
			return
		}
		if errors.Is(err, ErrChanged) && wait(ctx) == nil {
			look, err = e.Look(ctx)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addUnseen(entry{id: rand.Text(), edit: edit})
}
