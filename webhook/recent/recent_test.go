package recent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// shared is a store as replicas share one, in which each version is remembered.
type shared struct {
	mu       sync.Mutex
	uid      int
	versions []content
	// fail is what requests get instead of an answer; lost, whether a write counts all the same.
	fail error
	lost bool
	// readOnly is set if there is no right to write.
	readOnly      bool
	reads, writes int
	// slow is how long the answer to a write takes that was made.
	slow time.Duration
	// latency is how long the way to it takes at most, and the way back.
	latency time.Duration
	// deaf is set if nothing is told to those who follow.
	deaf    bool
	changed chan struct{}
	// seals are those of the replicas; nil for none.
	seals *Seals
}

// by is the way of one replica to it.
type by struct {
	*shared
	instance string
}

func newShared() *shared {
	s := &shared{changed: make(chan struct{})}
	s.make("")
	return s
}

// make makes the object, with a list.
func (s *shared) make(list string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeNow(list)
}

func (s *shared) makeNow(list string) {
	s.uid++
	s.append(content{uid: fmt.Sprint("u", s.uid), entries: decode(list, nil, s.seals), writer: "kubectl"})
}

// remove removes the object.
func (s *shared) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(content{uid: s.now().uid, absent: true})
}

// put puts a list into the object, as somebody else does.
func (s *shared) put(list string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(content{uid: s.now().uid, entries: decode(list, nil, s.seals), writer: "kubectl"})
}

func (s *shared) append(c content) {
	c.version = strconv.Itoa(len(s.versions) + 1)
	s.versions = append(s.versions, c)
	s.notify()
}

func (s *shared) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shared) now() content { return s.versions[len(s.versions)-1] }

// linger takes as long as one way may take.
func (s *shared) linger() {
	if s.latency > 0 {
		time.Sleep(rand.N(s.latency))
	}
}

func (b by) read(context.Context) (content, error) {
	b.linger()
	defer b.linger()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.fail != nil && !b.lost {
		return content{}, b.fail
	}
	if b.now().absent {
		b.makeNow("")
	}
	return b.now(), nil
}

// left0 reports whether there is nothing to put anything into.
func (s *shared) left0() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().absent
}

// left returns the entries in it.
func (s *shared) left() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().entries
}

// set changes how it behaves.
func (s *shared) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.notify()
}

func (b by) write(_ context.Context, from content, entries []entry, dryRun ...string) (content, error) {
	b.linger()
	defer b.linger()
	b.mu.Lock()
	defer func(slow time.Duration) {
		b.mu.Unlock()
		time.Sleep(slow)
	}(b.slow)
	if dryRun == nil {
		b.writes++
	}
	fail := b.fail
	switch {
	case fail != nil && !b.lost:
		return content{}, fail
	case b.readOnly:
		return content{}, fmt.Errorf("it %w: forbidden", errUnusable)
	case !from.same(b.now()) || b.now().absent:
		return content{}, ErrChanged
	case dryRun != nil:
		return from, nil
	}
	text, err := encode(entries, b.instance, b.seals)
	if err != nil {
		return content{}, err
	}
	b.fail = nil
	b.append(content{uid: from.uid, entries: decode(text, nil, b.seals), known: from.known})
	return b.now(), fail
}

func (b by) follow(ctx context.Context, seen func(content)) error {
	b.mu.Lock()
	next := len(b.versions) - 1
	b.mu.Unlock()
	for ctx.Err() == nil {
		b.mu.Lock()
		fail, changed := b.fail, b.changed
		if b.lost {
			fail = nil
		}
		var versions []content
		if !b.deaf {
			versions = b.versions[next:]
		}
		b.mu.Unlock()
		if fail != nil {
			return fail
		}
		for _, c := range versions {
			b.linger()
			seen(c)
		}
		next += len(versions)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// replica returns the Edits of a replica, which run until the test ends.
func (s *shared) replica(t *testing.T, name string, o Options) *Edits {
	t.Helper()
	o.Lease = &Lease{instance: name}
	e := New(o)
	e.shared = by{s, name}
	run(t, e)
	time.Sleep(settleTime)
	return e
}

// run runs e until the test ends or stop is called.
func run(t *testing.T, e *Edits) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func set(name, source string) *configv1.ImageTagMirrorSet {
	o := &configv1.ImageTagMirrorSet{}
	o.Name = name
	o.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: source, Mirrors: []configv1.ImageMirror{"m.example.com"}}}
	return o
}

func put(name string) mirrors.Edit { return mirrors.Put(set(name, name+".example.com")) }

func view(t *testing.T, e *Edits) View {
	t.Helper()
	l, err := e.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func add(t *testing.T, e *Edits, edit mirrors.Edit) {
	t.Helper()
	if err := e.Add(t.Context(), view(t, e), Change{Edit: edit}); err != nil {
		t.Fatal(err)
	}
}

// others returns the names of what counts, for e and at this moment, if inForce is in force by now.
func others(t *testing.T, e *Edits, inForce ...mirrors.Object) string {
	t.Helper()
	l, err := e.CurrentView(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Nanosecond) // the configuration is read after the look
	var names []string
	for _, edit := range l.Others(put("-"), mirrors.Set{Objects: inForce}, time.Now()) {
		names = append(names, edit.Subject())
	}
	return strings.Join(names, ", ")
}

func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// await waits until what another replica wrote is known to e, as far as that is told at once.
func await() { synctest.Wait() }

// TestShared: a replica counts what another has admitted, until it is in force; and who has not
// seen that may not add.
func TestShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		a, b := s.replica(t, "a", Options{}), s.replica(t, "b", Options{})
		early := view(t, b)
		add(t, a, put("one"))
		if err := b.Add(t.Context(), early, Change{Edit: put("two")}); !errors.Is(err, ErrChanged) {
			t.Fatalf("added without knowing of the other: %v", err)
		}
		for name, e := range map[string]*Edits{"a": a, "b": b} {
			if got := others(t, e); got != "ImageTagMirrorSet one" {
				t.Errorf("%s counts %q", name, got)
			}
		}
		if got := others(t, b, set("one", "one.example.com")); got != "" {
			t.Errorf("%q is in force", got)
		}
		if got := others(t, b); got != "" {
			t.Errorf("%q was in force, and may be gone since", got)
		}
		add(t, b, put("two")) // leaves out what it knows to be stored
		if left := s.left(); len(left) != 1 {
			t.Errorf("%d entries are in the list", len(left))
		}
		if got := others(t, a); got != "ImageTagMirrorSet one, ImageTagMirrorSet two" {
			t.Errorf("a counts %q, and does not know that one is stored", got)
		}
	})
}

// TestNothingChanges: what is in force already is not added.
func TestNothingChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		e := s.replica(t, "a", Options{})
		told := 0
		c := Change{Edit: put("one"), InForce: mirrors.Set{Objects: []mirrors.Object{set("one", "one.example.com")}}, Done: func(stored bool) {
			if told++; stored {
				t.Error("it is said to be by this change")
			}
		}}
		if err := e.Add(t.Context(), view(t, e), c); err != nil || others(t, e) != "" || told != 1 {
			t.Errorf("%v, counts %q, told %d times", err, others(t, e), told)
		}
	})
}

// TestFresh: a look is out of date as soon as this process knows of a later one.
func TestFresh(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		a, b := s.replica(t, "a", Options{}), s.replica(t, "b", Options{})
		l := view(t, a)
		if !l.Fresh(time.Now()) {
			t.Error("nothing has happened")
		}
		s.set(func() { s.deaf = true })
		await()
		go func() { _ = b.Add(t.Context(), view(t, b), Change{Edit: put("one")}) }()
		await()
		if !l.Fresh(time.Now()) {
			t.Error("it is for Add to find out what another replica does")
		}
		s.set(func() { s.deaf = false })
		await()
		if l.Fresh(time.Now()) || (View{}).Fresh(time.Now()) {
			t.Error("a later version has shown more")
		}
		time.Sleep(time.Hour)
		if l = view(t, a); !l.Fresh(time.Now().Add(-time.Hour)) {
			t.Error("age matters only where nothing is shared")
		}
	})
}

// TestRequests: what nobody else changes takes one request to add to, and none to look at.
func TestRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		e := s.replica(t, "a", Options{})
		await()
		s.mu.Lock()
		s.reads, s.writes = 0, 0
		s.mu.Unlock()
		add(t, e, put("one"))
		add(t, e, put("two"))
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.reads != 0 || s.writes != 2 {
			t.Errorf("%d reads and %d writes", s.reads, s.writes)
		}
	})
}

// TestTakenOff: that something is taken off the list is nothing to look again for, whether this
// replica has been told of it or not. That something was added is, whatever became of it.
func TestTakenOff(t *testing.T) {
	for _, tt := range []struct {
		what    string
		between func(t *testing.T, s *shared, b *Edits)
		deaf    bool
		err     error
	}{
		{"taken off", func(*testing.T, *shared, *Edits) {}, false, nil},
		{"taken off, and not told", func(*testing.T, *shared, *Edits) {}, true, nil},
		{"something else was added", func(t *testing.T, _ *shared, b *Edits) { add(t, b, put("two")) }, false, ErrChanged},
		{"something else was added, and not told", func(t *testing.T, _ *shared, b *Edits) { add(t, b, put("two")) }, true, ErrChanged},
		{"something else was added, and is gone", func(t *testing.T, s *shared, b *Edits) {
			add(t, b, put("two"))
			await()
			s.put("")
		}, false, ErrChanged},
	} {
		t.Run(tt.what, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newShared()
				a, b := s.replica(t, "a", Options{}), s.replica(t, "b", Options{})
				add(t, b, put("one"))
				await()
				l := view(t, a)
				if tt.deaf {
					s.set(func() { s.deaf = true })
					await()
				}
				tt.between(t, s, b)
				s.put("") // b knows nothing of what is in force, and puts it back later
				if tt.deaf {
					time.AfterFunc(catchUpTime/2, func() { s.set(func() { s.deaf = false }) })
				} else {
					await()
				}
				if err := a.Add(t.Context(), l, Change{Edit: put("mine")}); !errors.Is(err, tt.err) {
					t.Errorf("%v, want %v", err, tt.err)
				}
			})
		})
	}
}

// TestFollowedAnew: what was added while the list was not followed may have been taken off it since.
func TestFollowedAnew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		e := s.replica(t, "a", Options{})
		l := view(t, e)
		s.set(func() { s.fail = errors.New("no route to host") })
		await()
		if l.Fresh(time.Now()) {
			t.Error("nobody tells what is added")
		}
		s.put("")
		s.set(func() { s.fail = nil })
		time.Sleep(2 * settleTime)
		if l.Fresh(time.Now()) {
			t.Error("who knows what was added?")
		}
		if err := e.Add(t.Context(), l, Change{Edit: put("one")}); !errors.Is(err, ErrChanged) {
			t.Errorf("added: %v", err)
		}
		add(t, e, put("one"))
	})
}

// TestOvertaken: what comes late must not hide what is known already.
func TestOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		e := s.replica(t, "a", Options{})
		late := s.versions[0]
		add(t, e, put("one"))
		await()
		e.see(late)
		if e.latest.version != "2" || others(t, e) != "ImageTagMirrorSet one" || len(s.left()) != 1 {
			t.Errorf("version %s, counts %q", e.latest.version, others(t, e))
		}
	})
}

// TestEveryVersionCounts: what became of the list in the meantime hides nothing that was in it.
// That is what makes it safe from who may write it.
func TestEveryVersionCounts(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		disturb func(*shared)
		what    kindOfTrouble
	}{
		{"deleted", func(s *shared) { s.remove() }, deleted},
		{"deleted, and there again", func(s *shared) { s.remove(); s.make("") }, deleted},
		{"emptied", func(s *shared) { s.put("") }, emptied},
		{"garbage", func(s *shared) { s.put("garbage") }, garbage},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newShared()
				nothing := func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return mirrors.Set{}, nil }
				options := Options{Stored: nothing, OtherWebhooks: func(context.Context) (time.Duration, error) { return 10 * time.Second, nil }}
				a, b := s.replica(t, "a", options), s.replica(t, "b", options)
				early := view(t, b)
				add(t, a, put("one"))
				tt.disturb(s)
				if err := b.Add(t.Context(), early, Change{Edit: put("two")}); !errors.Is(err, ErrChanged) {
					t.Errorf("added without knowing of the other: %v", err)
				}
				others := view(t, b).Others(put("two"), mirrors.Set{}, time.Now())
				if len(others) == 0 || others[0].Subject() != "ImageTagMirrorSet one" {
					t.Errorf("b counts %v", others)
				}
				time.Sleep(2 * sweepEvery)
				await()
				if left := s.left(); tt.what != garbage && (len(left) != 1 || left[0].by != "a") {
					t.Errorf("a does not put back what is its own: %v", left)
				}
				if a.trouble.counts[tt.what] == 0 || len(a.Notes()) != 1 || !strings.Contains(a.Notes()[0], "was disturbed") {
					t.Errorf("it is not told: %v, %q", a.trouble.counts, a.Notes())
				}
			})
		})
	}
}

// TestStoredIsNoTrouble: a replica takes an edit off the list that it finds in force, before the one that admitted it has
// read the configuration again. Nothing has disturbed the list.
func TestStoredIsNoTrouble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		var stored atomic.Bool
		read := func(latency time.Duration) func(context.Context, []mirrors.Edit) (mirrors.Set, error) {
			return func(context.Context, []mirrors.Edit) (mirrors.Set, error) {
				var now mirrors.Set
				if stored.Load() {
					now.Objects = []mirrors.Object{set("one", "one.example.com")}
				}
				time.Sleep(latency) // on the way back
				return now, nil
			}
		}
		a := s.replica(t, "a", Options{Stored: read(300 * time.Millisecond)})
		s.replica(t, "b", Options{Stored: read(0)})
		add(t, a, put("one"))
		time.Sleep(60 * time.Millisecond) // a has just asked
		stored.Store(true)
		time.Sleep(240 * time.Millisecond)
		if left := s.left(); len(left) != 0 {
			t.Fatalf("b has left %v in the list", left)
		}
		time.Sleep(10 * sweepEvery)
		await()
		if left := s.left(); len(left) != 0 {
			t.Errorf("%v left", left)
		}
		if notes := a.Notes(); len(notes) != 0 {
			t.Errorf("it says %q", notes)
		}
	})
}

// TestTooOldIsNoTrouble: where it is not known what is stored, another replica takes an edit off the list a moment before the
// one that admitted it does, as it has waited for the answer.
func TestTooOldIsNoTrouble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		nothing := func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return mirrors.Set{}, nil }
		a := s.replica(t, "a", Options{Stored: nothing})
		s.replica(t, "b", Options{Stored: nothing})
		s.set(func() { s.slow = 3 * time.Second })
		add(t, a, put("one"))
		s.set(func() { s.slow = 0 })
		time.Sleep(MaxStoringTime + 10*sweepEvery)
		if left, notes := s.left(), a.Notes(); len(left) != 0 || len(notes) != 0 {
			t.Errorf("%v left; it says %q", left, notes)
		}
	})
}

// TestBeginsAnew: what a replica has not followed it does not rely on for a moment, in which those
// whose edits are lost put them back. Where nothing has happened, that is not needed.
func TestBeginsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		a := s.replica(t, "a", Options{OtherWebhooks: func(context.Context) (time.Duration, error) { return time.Minute, nil }})
		b := s.replica(t, "b", Options{})
		s.set(func() { s.fail = errors.New("410 Gone") })
		await()
		s.set(func() { s.fail = nil })
		time.Sleep(pollInterval)
		await()
		start := time.Now()
		if _, err := b.AwaitView(t.Context()); err != nil || time.Since(start) >= settleTime {
			t.Errorf("nothing has happened, and it waited %s: %v", time.Since(start), err)
		}
		add(t, a, put("one"))
		s.set(func() { s.deaf = true }) // b does not see what comes now
		s.put("")
		s.set(func() { s.fail, s.deaf = errors.New("410 Gone"), false })
		await()
		s.set(func() { s.fail = nil })
		ctx := from(t, "", settleTime/2)
		if _, err := b.AwaitView(ctx); !errors.Is(err, errNotSettled) && !errors.Is(err, errNotFollowed) {
			t.Errorf("it relies on what it sees: %v", err)
		}
		if _, err := b.AwaitView(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := others(t, b); got != "ImageTagMirrorSet one" {
			t.Errorf("counts %q", got)
		}
	})
}

// TestLostAnswer: a write that was made, and whose answer got lost, is made once.
func TestLostAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		e := s.replica(t, "a", Options{})
		s.set(func() { s.fail, s.lost = errors.New("connection reset"), true })
		add(t, e, put("one"))
		if s.writes != 1 || others(t, e) != "ImageTagMirrorSet one" {
			t.Errorf("%d writes, %q", s.writes, others(t, e))
		}
	})
}

// TestSlowAnswer: an edit whose answer is late is not admitted yet, so it is not given up.
func TestSlowAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		nothing := func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return mirrors.Set{}, nil }
		e := s.replica(t, "a", Options{Stored: nothing, OtherWebhooks: func(context.Context) (time.Duration, error) { return 0, nil }})
		add(t, e, put("first"))
		s.set(func() { s.slow = 10 * time.Second })
		add(t, e, put("one"))
		s.set(func() { s.slow = 0 })
		if got := others(t, e); got != "ImageTagMirrorSet one" {
			t.Errorf("counts %q", got)
		}
		time.Sleep(storingMargin + 2*sweepEvery)
		if got := others(t, e); got != "" {
			t.Errorf("counts %q for ever", got)
		}
	})
}

// TestOutOfReach: what other replicas have admitted is not known; nobody may go on.
func TestOutOfReach(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		e := s.replica(t, "a", Options{})
		l := view(t, e)
		s.mu.Lock()
		s.fail = errors.New("no route to host")
		s.mu.Unlock()
		short := func() context.Context { return from(t, "", time.Second) }
		if _, err := e.CurrentView(short()); err == nil {
			t.Error("looked at what is out of reach")
		}
		if err := e.Add(short(), l, Change{Edit: put("one")}); err == nil || errors.Is(err, ErrChanged) {
			t.Errorf("added: %v", err)
		}
		l = view(t, e)
		s.set(func() {}) // it is not followed any more
		await()
		if _, err := e.AwaitView(short()); err == nil || !strings.Contains(err.Error(), "no route to host") {
			t.Errorf("looked: %v", err)
		}
		if err := e.Add(short(), l, Change{Edit: put("one")}); !errors.Is(err, ErrChanged) {
			t.Errorf("added without being followed: %v", err)
		}
		if len(e.Notes()) != 0 {
			t.Errorf("a failure that passes is not a matter of setting up: %q", e.Notes())
		}
	})
}

var errForbidden = fmt.Errorf("it %w: forbidden", errUnusable)

// TestNoRight: guards without the right to the Lease, which they never had, go on by themselves,
// and say so.
func TestNoRight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		s.fail = errForbidden
		e := s.replica(t, "a", Options{})
		l := view(t, e)
		add(t, e, put("one"))
		if got := others(t, e); got != "ImageTagMirrorSet one" {
			t.Errorf("counts %q", got)
		}
		if notes := e.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "forbidden") {
			t.Errorf("notes %q", notes)
		}
		if l.Fresh(time.Now()) {
			t.Error("something was added since")
		}
		l = view(t, e)
		time.Sleep(MaxReadAge + 1)
		if l.Fresh(time.Now().Add(-MaxReadAge - 1)) {
			t.Error("another replica may have admitted something")
		}
		s.set(func() { s.fail = nil })
		time.Sleep(announceEvery)
		add(t, e, put("two"))
		if got := others(t, e); got != "ImageTagMirrorSet two" || len(e.Notes()) != 0 {
			t.Errorf("with the right: counts %q, notes %q", got, e.Notes())
		}
	})
}

// TestRightLost: whoever has shared before waits until nothing can come any more of what others
// have admitted, and then goes on by itself and says so.
func TestRightLost(t *testing.T) {
	for reason, lose := range map[string]func(*shared){
		"to read":  func(s *shared) { s.fail = errForbidden },
		"to write": func(s *shared) { s.readOnly = true },
	} {
		t.Run(reason, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newShared()
				e := s.replica(t, "a", Options{})
				add(t, e, put("zero"))
				s.set(func() { lose(s) })
				await() // who follows has noticed
				lost := time.Now()
				short := from(t, "", time.Second)
				l, err := e.AwaitView(short)
				if err == nil {
					err = e.Add(short, l, Change{Edit: put("one")})
				}
				if !errors.Is(err, errUnusable) || !strings.Contains(err.Error(), "may still be stored") {
					t.Fatalf("it goes on at once: %v", err)
				}
				if l := e.viewNow(false); len(l.Others(put("-"), mirrors.Set{}, time.Time{})) != 1 {
					t.Error("what is known here is forgotten")
				}
				if got := exported(t, e); got != "0" || len(e.Notes()) != 1 {
					t.Errorf("the gauge is %q, notes %q", got, e.Notes())
				}
				if l, err = e.AwaitView(t.Context()); err != nil || time.Since(lost) < MaxStoringTime-time.Second {
					t.Fatalf("after %s: %v", time.Since(lost), err)
				}
				if err := e.Add(t.Context(), l, Change{Edit: put("two")}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRightsChange: that the list can no longer be shared, and that it can again, is found out
// without a change that is reviewed.
func TestRightsChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		s.fail = errors.New("no route to host")
		e := New(Options{Lease: &Lease{instance: "a"}})
		e.shared = by{s, "a"}
		run(t, e)
		for _, step := range []struct {
			fail     error
			readOnly bool
			want     string
		}{
			{errors.New("no route to host"), false, ""},
			{nil, false, "1"},
			{errors.New("no route to host"), false, "1"}, // and then there are no verdicts
			{errForbidden, false, "0"},
			{nil, false, "1"},
			{nil, true, "0"},
			{nil, false, "1"},
		} {
			s.set(func() { s.fail, s.readOnly = step.fail, step.readOnly })
			time.Sleep(announceEvery)
			await()
			if got := exported(t, e); got != step.want {
				t.Errorf("after %v: the gauge is %q, want %q", step.fail, got, step.want)
			}
			if (len(e.Notes()) > 0) != (step.want == "0") {
				t.Errorf("after %v: notes %q", step.fail, e.Notes())
			}
		}
		if s.writes != 0 {
			t.Errorf("the list was written %d times", s.writes)
		}
		if got := exported(t, New(Options{})); got != "" {
			t.Errorf("a process that is the only one has %q", got)
		}
	})
}

// exported returns the value of the gauge; "" if it is missing.
func exported(t *testing.T, e *Edits) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(e.Metrics())
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "mirrorset_guard_recent_edits_shared" {
			return fmt.Sprint(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return ""
}

// TestDeadReplica: what a replica leaves behind counts as long as it may still be stored, from
// when it was first seen, however the clocks are set; then the others take it off the list.
func TestDeadReplica(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		dead := New(Options{Lease: &Lease{instance: "dead"}})
		dead.shared = by{s, "dead"}
		stop := run(t, dead)
		time.Sleep(settleTime)
		add(t, dead, put("one"))
		stop()
		time.Sleep(24 * time.Hour)
		e := s.replica(t, "b", Options{})
		if got := others(t, e); got != "ImageTagMirrorSet one" {
			t.Errorf("counts %q", got)
		}
		add(t, e, put("two")) // is not kept out
		time.Sleep(MaxStoringTime)
		if got := others(t, e); got != "" {
			t.Errorf("counts %q", got)
		}
		time.Sleep(2 * sweepEvery)
		if left := s.left(); len(left) != 0 {
			t.Errorf("%d entries are left", len(left))
		}
	})
}

// TestSweep: an edit goes as soon as it is in force, or can no longer be stored, and it is told
// which.
func TestSweep(t *testing.T) {
	for _, tt := range []struct {
		reason string
		stored time.Duration // after which it is; 0 for never
		others func(context.Context) (time.Duration, error)
		within time.Duration
		longer time.Duration // that it stays at least
	}{
		{"stored", firstSweeps[0] / 2, nil, firstSweeps[0] + 1, 0},
		{"stored late", 300 * time.Millisecond, nil, 2 * sweepEvery, 0},
		{"refused, and no other webhook is slow", 0, func(context.Context) (time.Duration, error) { return 0, nil }, storingMargin + 2*sweepEvery, storingMargin - time.Millisecond},
		{"refused by a webhook with 5 s", 0, func(context.Context) (time.Duration, error) { return 5 * time.Second, nil }, 5*time.Second + storingMargin + 2*sweepEvery, 5*time.Second + storingMargin - time.Millisecond},
		{"refused, and nothing is known of others", 0, func(context.Context) (time.Duration, error) { return 0, errors.New("forbidden") }, MaxStoringTime + 2*sweepEvery, MaxStoringTime - sweepEvery},
		{"refused, and nobody can be asked", 0, nil, MaxStoringTime + 2*sweepEvery, MaxStoringTime - sweepEvery},
	} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, alone %t", tt.reason, alone), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newShared()
					var c cluster
					options := Options{OtherWebhooks: tt.others, Stored: c.stored}
					e := New(options)
					if alone {
						run(t, e)
					} else {
						e = s.replica(t, "a", options)
					}
					if tt.stored > 0 {
						time.AfterFunc(tt.stored, func() { c.store(set("one", "one.example.com")) })
					}
					told := make(chan bool, 2)
					if err := e.Add(t.Context(), view(t, e), Change{Edit: put("one"), Done: func(stored bool) { told <- stored }}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(tt.longer)
					if got := others(t, e); tt.longer > 0 && got == "" {
						t.Errorf("gone before %s", tt.longer)
					}
					time.Sleep(tt.within - tt.longer)
					await()
					if got := others(t, e); got != "" || len(s.left()) != 0 {
						t.Errorf("%q is still there after %s", got, tt.within)
					}
					if stored := <-told; stored != (tt.stored > 0) || len(told) > 0 {
						t.Errorf("told that it is stored: %t, and %d times more", stored, len(told))
					}
				})
			})
		}
	}
}

// TestOthersTakeOff: that another replica takes its edit off the list is its word for its being
// over, once it should be stored; before that it may be somebody else's doing.
func TestOthersTakeOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		nothing := func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return mirrors.Set{}, nil }
		webhooks := func(context.Context) (time.Duration, error) { return 5 * time.Second, nil }
		a, b := s.replica(t, "a", Options{}), s.replica(t, "b", Options{Stored: nothing, OtherWebhooks: webhooks})
		add(t, a, put("one"))
		await()
		a.Observe(mirrors.Set{Objects: []mirrors.Object{set("one", "one.example.com")}}, time.Now().Add(time.Millisecond))
		time.Sleep(2 * sweepEvery)
		if len(s.left()) != 0 {
			t.Error("a leaves what is stored in the list")
		}
		if got := others(t, b); got != "ImageTagMirrorSet one" {
			t.Errorf("b counts %q", got)
		}
		time.Sleep(5*time.Second + storingMargin)
		if got := others(t, b); got != "" {
			t.Errorf("b counts %q for ever", got)
		}
	})
}

// TestUnreadable: what another version wrote may be anything, so a change waits for as long as
// storing may take, once; then it is kept if a later version wrote it, and replaced if not.
func TestUnreadable(t *testing.T) {
	for _, tt := range []struct {
		text string
		kept bool
	}{
		{"garbage", false},
		{"H4sIAAAAAAAA", false},
		{packed(t, `[{"v":2,"id":"x","by":"b"}]`), true},
		{packed(t, `[{"v":2,"id":"x","by":"b","edit":7}]`), true},
		{packed(t, `[{"v":1,"id":"x","by":"b","edit":[],"until":1}]`), true},
		{packed(t, `[{"v":1,"id":"x","by":"b","edit":[{"do":"put","object":{"apiVersion":"config.openshift.io/v1","kind":"ImageTagMirrorSet","metadata":{"name":"x"},"spec":{"later":1}}}]}]`), true},
		{packed(t, `[{"v":1,"id":"x","edit":[{"do":"dance","object":{}}]}]`), false},
		{packed(t, `[7]`), false},
		{packed(t, `{}`), false},
		{packed(t, "["+strings.Repeat("{},", MaxEntries)+"{}]"), false},
		{packed(t, `[{"v":1,"id":"x","edit":[`+strings.Repeat("{},", maxValues)+`{}]}]`), false},
		{packed(t, "["+strings.Repeat(" ", maxDecoded)+"]"), false},
	} {
		inBubble(t, func(t *testing.T) {
			s := newShared()
			nothing := func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return mirrors.Set{}, nil }
			e := s.replica(t, "a", Options{Stored: nothing, OtherWebhooks: func(context.Context) (time.Duration, error) { return 5 * time.Second, nil }})
			for round := range 3 {
				s.put(tt.text + strings.Repeat("\n", round)) // another text, which says the same
				await()
				start := time.Now()
				_, err := e.AwaitView(from(t, "", time.Second))
				if waits := err != nil && strings.Contains(err.Error(), "cannot be read here"); waits != (round == 0) {
					t.Errorf("%.40s: round %d: %v", tt.text, round, err)
				}
				if _, err := e.AwaitView(t.Context()); err != nil || time.Since(start) > 5*time.Second+storingMargin+2*sweepEvery {
					t.Errorf("%.40s, after %s: %v", tt.text, time.Since(start), err)
				}
				add(t, e, put(fmt.Sprint("one", round)))
				if got := others(t, e); !strings.HasSuffix(got, fmt.Sprint("ImageTagMirrorSet one", round)) {
					t.Errorf("%.40s: counts %q", tt.text, got)
				}
				time.Sleep(10 * time.Second)
				if left := s.left(); len(left) > 0 != tt.kept {
					t.Errorf("%.40s: %d entries are left, is it kept: %t", tt.text, len(left), tt.kept)
				}
			}
			if notes := e.Notes(); (len(notes) == 0) != tt.kept || !tt.kept && !strings.Contains(notes[0], `3 times in the last hour; at `) || !tt.kept && !strings.Contains(notes[0], `by a program that calls itself "kubectl"`) {
				t.Errorf("%.40s: notes %q", tt.text, notes)
			}
			time.Sleep(rememberTrouble)
			if notes := e.Notes(); len(notes) != 0 {
				t.Errorf("an hour later: %q", notes)
			}
		})
	}
}

// packed packs a list.
func packed(t *testing.T, list string) string {
	t.Helper()
	text, err := zip([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTooLarge: an edit that does not fit is known to its own replica, and makes others wait.
func TestTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		a, b := s.replica(t, "a", Options{}), s.replica(t, "b", Options{})
		huge := set("huge", "huge.example.com")
		for i := range 9000 {
			huge.Spec.ImageTagMirrors = append(huge.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: idOf(fmt.Append(nil, i))})
		}
		add(t, a, mirrors.Put(huge))
		await()
		if got := others(t, a); got != "ImageTagMirrorSet huge" {
			t.Errorf("its own replica counts %q", got)
		}
		ctx := from(t, "", time.Second)
		if _, err := b.AwaitView(ctx); err == nil || !strings.Contains(err.Error(), "too large to be shared") {
			t.Errorf("another: %v", err)
		}
		if b.trouble.text(time.Now()) != "" {
			t.Error("that is no trouble")
		}
	})
}

// TestFull: there is room for so many; then a change waits for some to be stored.
func TestFull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		for _, e := range []*Edits{s.replica(t, "a", Options{}), New(Options{})} {
			for i := range MaxEntries {
				add(t, e, put(fmt.Sprint("o", i)))
			}
			if err := e.Add(t.Context(), view(t, e), Change{Edit: put("more")}); !errors.Is(err, ErrChanged) {
				t.Errorf("with time left: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			l := view(t, e)
			cancel()
			if err := e.Add(ctx, l, Change{Edit: put("more")}); !errors.Is(err, errFull) || errors.Is(err, ErrChanged) {
				t.Errorf("with none left: %v", err)
			}
		}
	})
}

// TestOverflow: who writes another list again and again, each of new entries, does not have those of
// replicas overlooked. Nothing is admitted for as long as one may have been.
func TestOverflow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		a, b := s.replica(t, "a", Options{}), s.replica(t, "b", Options{})
		flood := func(round int) {
			var entries []entry
			for i := range MaxEntries {
				entries = append(entries, entry{id: fmt.Sprint("f", round, "-", i), edit: put(fmt.Sprint("f", round, "-", i))})
			}
			list, err := encode(entries, "nobody", nil)
			if err != nil {
				t.Fatal(err)
			}
			s.put(list)
		}
		for round := range maxKnown/MaxEntries - 1 {
			flood(round)
			await()
		}
		s.put("")
		await()
		early := view(t, b)
		for i := range MaxEntries {
			add(t, a, put(fmt.Sprint("o", i)))
		}
		flood(maxKnown)
		s.put("")
		await()
		if err := b.Add(t.Context(), early, Change{Edit: put("last")}); !errors.Is(err, ErrChanged) {
			t.Errorf("added without knowing of others: %v", err)
		}
		ctx := from(t, "", MaxStoringTime/2)
		if _, err := b.AwaitView(ctx); !errors.Is(err, errFull) {
			t.Errorf("it decides although it may have overlooked something: %v", err)
		}
		if _, err := b.AwaitView(t.Context()); err != nil {
			t.Errorf("after a while: %v", err)
		}
	})
}

// TestAddUnconditionally: what is admitted without a verdict counts, be the Lease out of reach; and is shared
// once it is there again.
func TestAddUnconditionally(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		a, b := s.replica(t, "a", Options{}), s.replica(t, "b", Options{})
		a.AddUnconditionally(t.Context(), Change{Edit: put("one")})
		await()
		if got := others(t, b); got != "ImageTagMirrorSet one" {
			t.Errorf("b counts %q", got)
		}
		s.set(func() { s.fail = errors.New("gone") })
		ctx := from(t, "", time.Second)
		a.AddUnconditionally(ctx, Change{Edit: put("two")})
		s.set(func() { s.fail = nil })
		time.Sleep(settleTime)
		if got := others(t, a); got != "ImageTagMirrorSet one, ImageTagMirrorSet two" {
			t.Errorf("a counts %q", got)
		}
		time.Sleep(2 * sweepEvery)
		if got := others(t, b); got != "ImageTagMirrorSet one, ImageTagMirrorSet two" {
			t.Errorf("b counts %q", got)
		}
		for range 2 * maxKnown {
			a.admitHere(Change{Edit: put("x")})
		}
		if n := len(a.pending); n != maxKnown {
			t.Errorf("%d are kept, want no more than %d", n, maxKnown)
		}
	})
}

// TestSameObject: which of several edits of one object is stored last is not known, so all count;
// an edit is not judged with others of its own object.
func TestSameObject(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		a := s.replica(t, "a", Options{})
		add(t, a, mirrors.Put(set("one", "x.example.com")))
		if err := a.Add(t.Context(), view(t, a), Change{Edit: mirrors.Delete(set("one", "")), InForce: mirrors.Set{Objects: []mirrors.Object{set("one", "z")}}}); err != nil {
			t.Fatal(err)
		}
		if got := others(t, a, set("one", "y.example.com")); got != "ImageTagMirrorSet one, Deleting ImageTagMirrorSet one" {
			t.Errorf("counts %q", got)
		}
		if got := view(t, a).Others(put("one"), mirrors.Set{}, time.Time{}); len(got) != 0 {
			t.Errorf("an edit is not judged with others of its object: %v", got)
		}
	})
}

// TestObserve: what was admitted after the configuration was read is kept, though it looks as
// if it were in force: that may be the state before an edit in between.
func TestObserve(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := New(Options{})
		read := time.Now()
		time.Sleep(time.Millisecond)
		add(t, e, put("one"))
		stored := mirrors.Set{Objects: []mirrors.Object{set("one", "one.example.com")}}
		e.Observe(stored, read)
		if got := others(t, e); got != "ImageTagMirrorSet one" {
			t.Errorf("counts %q", got)
		}
		e.Observe(stored, time.Now().Add(time.Millisecond))
		if got := others(t, e); got != "" {
			t.Errorf("counts %q", got)
		}
	})
}

// TestManyReplicas: whatever comes in between what, of two changes that are admitted one was judged with
// the other, be it in force by then or not. Requests take their time, in which others are made, so that
// replicas are told late, and look after the list in the middle of a write.
func TestManyReplicas(t *testing.T) {
	for _, tt := range []struct {
		name      string
		disturbed time.Duration // how often; 0 for never
		latency   time.Duration
		worlds    int
	}{
		{"at once", 0, 0, 1},
		{"at once, disturbed", time.Millisecond, 0, 1},
		{"in their time", 0, 20 * time.Millisecond, 30},
		{"in their time, disturbed", 300 * time.Millisecond, 20 * time.Millisecond, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range tt.worlds {
				inBubble(t, func(t *testing.T) {
					s := newShared()
					s.latency = tt.latency
					w := newManyReplicas(t, s, 5)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if tt.disturbed != 0 {
						go s.disturb(ctx, tt.disturbed)
					}
					w.changeAll(ctx, 6)
				})
			}
		})
	}
}

// disturb removes and empties the object again and again, until ctx ends.
func (s *shared) disturb(ctx context.Context, every time.Duration) {
	for i := 0; ; i++ {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
		if i%2 == 0 {
			s.remove()
		} else if !s.left0() {
			s.put("")
		}
	}
}

// A manyReplicas is replicas that admit changes at the same time, and a cluster that stores these.
type manyReplicas struct {
	t        *testing.T
	shared   *shared
	cluster  cluster
	replicas []*Edits

	mu   sync.Mutex
	knew map[string][]string // with what each change was judged that is admitted
}

func newManyReplicas(t *testing.T, s *shared, n int) *manyReplicas {
	w := &manyReplicas{t: t, shared: s, knew: map[string][]string{}}
	options := Options{
		OtherWebhooks: func(context.Context) (time.Duration, error) { return 0, nil },
		Stored: func(ctx context.Context, edits []mirrors.Edit) (mirrors.Set, error) {
			s.linger()
			return w.cluster.stored(ctx, edits)
		},
	}
	for i := range n {
		w.replicas = append(w.replicas, s.replica(t, fmt.Sprint("r", i), options))
	}
	return w
}

// changeAll has each replica admit n changes, one after another as far as it decides, and compares with
// what each was judged.
func (w *manyReplicas) changeAll(ctx context.Context, n int) {
	var all sync.WaitGroup
	for i, e := range w.replicas {
		for j := range n {
			all.Go(func() {
				time.Sleep(time.Duration(i+j) * 100 * time.Microsecond)
				w.change(ctx, e, fmt.Sprintf("o-%d-%d", i, j))
			})
		}
	}
	all.Wait()
	for a := range w.knew {
		for b := range w.knew {
			if a < b && !slices.Contains(w.knew[a], b) && !slices.Contains(w.knew[b], a) {
				w.t.Errorf("%s and %s were admitted without knowing of each other", a, b)
			}
		}
	}
	if want := n * len(w.replicas); len(w.knew) != want {
		w.t.Errorf("%d additions, want %d", len(w.knew), want)
	}
}

// change has e admit a change, which is stored a while later.
func (w *manyReplicas) change(ctx context.Context, e *Edits, name string) {
	for ctx.Err() == nil {
		l, err := e.AwaitView(ctx)
		if err != nil {
			w.t.Error(err)
			return
		}
		time.Sleep(time.Nanosecond) // the configuration is read after the look
		read := time.Now()
		w.shared.linger()
		inForce := w.cluster.inForce()
		var before []string
		for _, o := range inForce.Objects {
			before = append(before, o.GetName())
		}
		for _, other := range l.Others(put(name), inForce, read) {
			before = append(before, other.Objects()[0].GetName())
		}
		w.shared.linger()
		turn, err := e.Turn(ctx, put(name), false)
		if err != nil {
			w.t.Error(err)
			return
		}
		err = e.Add(ctx, l, Change{Edit: put(name), InForce: inForce, Read: read, Turn: turn})
		turn.End()
		if err == nil {
			w.mu.Lock()
			w.knew[name] = before
			w.mu.Unlock()
			w.shared.linger()
			w.cluster.store(set(name, name+".example.com"))
			return
		}
		if !errors.Is(err, ErrChanged) {
			w.t.Error(err)
			return
		}
	}
}

// TestOverMeanwhile: what has come into force after the configuration was read is judged with, though
// it is over by the time that is asked for.
func TestOverMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var c cluster
		e := c.edits(t)
		add(t, e, put("one"))
		time.Sleep(time.Millisecond)
		view := view(t, e)
		before := c.inForce()
		read := time.Now()
		c.store(set("one", "one.example.com"))
		time.Sleep(sweepEvery)
		if others(t, e) != "" {
			t.Fatal("it is not over")
		}
		if got := view.Others(put("two"), before, read); len(got) != 1 {
			t.Errorf("what is not in the configuration counts as %v", got)
		}
	})
}

// TestNotReadYet: what was admitted while others were looked for is not taken for stored, as a deletion
// looks like what was not looked for.
func TestNotReadYet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := New(Options{Stored: func(context.Context, []mirrors.Edit) (mirrors.Set, error) {
			time.Sleep(10 * time.Millisecond)
			return mirrors.Set{}, nil
		}})
		run(t, e)
		add(t, e, put("one"))
		time.Sleep(firstSweeps[0] + 5*time.Millisecond)
		e.admitHere(Change{Edit: mirrors.Delete(set("two", "two.example.com"))})
		time.Sleep(10 * time.Millisecond)
		if got := others(t, e, set("two", "two.example.com")); got != "ImageTagMirrorSet one, Deleting ImageTagMirrorSet two" {
			t.Errorf("counts %q", got)
		}
		time.Sleep(sweepEvery)
		if got := others(t, e, set("two", "two.example.com")); got != "ImageTagMirrorSet one" {
			t.Errorf("counts %q", got)
		}
	})
}

// TestDecoderSharesEntries: whoever looks at the list has the same edits, and what is added leaves
// them as they are.
func TestDecoderSharesEntries(t *testing.T) {
	list := func(names ...string) string {
		var entries []entry
		for _, name := range names {
			entries = append(entries, entry{id: name, edit: mirrors.Put(set(name, "quay.io/"+name))})
		}
		text, err := encode(entries, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var d decoder
	one, again, more := d.decode(list("a"), nil), d.decode(list("a"), nil), d.decode(list("a", "b"), nil)
	if &one[0] != &again[0] {
		t.Error("the same list was decoded twice")
	}
	if len(more) != 2 || &more[0].raw[0] != &one[0].raw[0] {
		t.Error("an entry was decoded twice")
	}
}

// TestAdmitted: a change that is about to be admitted counts for those that are, and not for a dry run.
func TestAdmitted(t *testing.T) {
	e := New(Options{})
	add(t, e, put("admitted"))
	p := &pending{entry: entry{id: "x", edit: put("maybe")}, at: time.Now(), own: new(own)}
	e.mu.Lock()
	e.insert(p)
	e.mu.Unlock()
	view, err := e.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count := func(v View) int { return len(v.Others(put("another"), mirrors.Set{}, time.Now())) }
	if all, admitted := count(view), count(view.admitted()); all != 2 || admitted != 1 {
		t.Errorf("%d count for a change, %d for a dry run, want 2 and 1", all, admitted)
	}
	p.own.seat = &seat{}
	e.admit(p)
	if admitted := count(view.admitted()); admitted != 2 {
		t.Errorf("once it is admitted, %d count for a dry run, want 2", admitted)
	}
}
