package recent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// shared is a store as replicas share one.
type shared struct {
	mu      sync.Mutex
	version int
	text    string
	// fail is what requests get instead of an answer; lost, whether a write counts all the same.
	fail error
	lost bool
	// readOnly is set if there is no right to write.
	readOnly bool
	writes   int
	// slow is how long the answer to a write takes that was made.
	slow time.Duration
}

// by is the way of one replica to it.
type by struct {
	*shared
	instance string
}

func (b by) read(context.Context) (content, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil && !b.lost {
		return content{}, b.fail
	}
	return b.content(), nil
}

func (s *shared) content() content {
	if s.version == 0 {
		return content{}
	}
	return content{version: strconv.Itoa(s.version), entries: decode(s.text)}
}

// left returns the entries in it.
func (s *shared) left() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content().entries
}

// answer sets how late answers are.
func (s *shared) answer(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = after
}

func (b by) write(_ context.Context, from content, entries []entry) (content, error) {
	b.mu.Lock()
	defer func(slow time.Duration) {
		b.mu.Unlock()
		time.Sleep(slow)
	}(b.slow)
	b.writes++
	fail := b.fail
	if fail != nil && !b.lost {
		return content{}, fail
	}
	if from.version != b.content().version {
		return content{}, ErrChanged
	}
	text, err := encode(entries, b.instance)
	if err != nil {
		return content{}, err
	}
	b.version, b.text, b.fail = b.version+1, text, nil
	return b.content(), fail
}

func (b by) try(_ context.Context, from content) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.fail != nil && !b.lost:
		return b.fail
	case b.readOnly:
		return fmt.Errorf("it %w: forbidden", errUnusable)
	case from.version != b.content().version:
		return ErrChanged
	}
	return nil
}

func (s *shared) replica(name string, o Options) *Edits {
	o.Lease = &Lease{instance: name}
	e := New(o)
	e.shared = by{s, name}
	return e
}

func set(name, source string) *configv1.ImageTagMirrorSet {
	o := &configv1.ImageTagMirrorSet{}
	o.Name = name
	o.Spec.ImageTagMirrors = []configv1.ImageTagMirrors{{Source: source, Mirrors: []configv1.ImageMirror{"m.example.com"}}}
	return o
}

func put(name string) mirrors.Edit { return mirrors.Put(set(name, name+".example.com")) }

func look(t *testing.T, e *Edits) Look {
	t.Helper()
	l, err := e.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func add(t *testing.T, e *Edits, edit mirrors.Edit) {
	t.Helper()
	if err := e.Add(t.Context(), look(t, e), edit, mirrors.Set{}, time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// others returns the names of what e counts, if inForce is in force by now.
func others(t *testing.T, e *Edits, inForce ...mirrors.Object) string {
	t.Helper()
	l := look(t, e)
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

// TestShared: a replica counts what another has admitted, until it is in force; and who has not
// seen that may not add.
func TestShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s shared
		a, b := s.replica("a", Options{}), s.replica("b", Options{})
		early := look(t, b)
		add(t, a, put("one"))
		if err := b.Add(t.Context(), early, put("two"), mirrors.Set{}, time.Time{}); !errors.Is(err, ErrChanged) {
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
		if got := others(t, a); got != "ImageTagMirrorSet two" {
			t.Errorf("a counts %q", got)
		}
	})
}

// TestFresh: a look is out of date as soon as this process knows of a later one.
func TestFresh(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s shared
		a, b := s.replica("a", Options{}), s.replica("b", Options{})
		l := look(t, a)
		if !l.Fresh(time.Now()) {
			t.Error("nothing has happened")
		}
		add(t, b, put("one"))
		if !l.Fresh(time.Now()) {
			t.Error("it is for Add to find out what another replica does")
		}
		look(t, a)
		if l.Fresh(time.Now()) || (Look{}).Fresh(time.Now()) {
			t.Error("a later look has shown more")
		}
		time.Sleep(time.Hour)
		if l = look(t, a); !l.Fresh(time.Now().Add(-time.Hour)) {
			t.Error("age matters only where nothing is shared")
		}
	})
}

// TestOvertaken: an answer that comes late must not hide what is known already.
func TestOvertaken(t *testing.T) {
	var s shared
	s.version = 9
	e := s.replica("a", Options{})
	late := s.content()
	add(t, e, put("one"))
	e.mu.Lock()
	e.remember(late, time.Now())
	e.mu.Unlock()
	if e.latest.version != "10" || len(e.own) != 1 {
		t.Errorf("version %s, own edits %d", e.latest.version, len(e.own))
	}
}

// TestLostAnswer: a write that was made, and whose answer got lost, is made once.
func TestLostAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := shared{fail: errors.New("connection reset"), lost: true}
		e := s.replica("a", Options{})
		add(t, e, put("one"))
		if s.writes != 1 || others(t, e) != "ImageTagMirrorSet one" {
			t.Errorf("%d writes, %q", s.writes, others(t, e))
		}
	})
}

// TestSlowAnswer: an edit whose answer is late is not admitted yet, so it is not given up.
func TestSlowAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s shared
		nothing := func(context.Context) (mirrors.Set, error) { return mirrors.Set{}, nil }
		e := s.replica("a", Options{InForce: nothing, OtherWebhooks: func(context.Context) (time.Duration, error) { return 0, nil }})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go e.Run(ctx)
		synctest.Wait()
		add(t, e, put("first"))
		s.answer(10 * time.Second)
		add(t, e, put("one"))
		s.answer(0)
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
		var s shared
		e := s.replica("a", Options{})
		l := look(t, e)
		s.fail = errors.New("no route to host")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.LookUntil(ctx); err == nil || !strings.Contains(err.Error(), "no route to host") {
			t.Errorf("looked: %v", err)
		}
		if err := e.Add(ctx, l, put("one"), mirrors.Set{}, time.Time{}); err == nil || errors.Is(err, ErrChanged) {
			t.Errorf("added: %v", err)
		}
		if len(e.Notes()) != 0 {
			t.Errorf("a failure that passes is not a matter of setting up: %q", e.Notes())
		}
	})
}

// TestNoRight: guards without the right to the Lease go on by themselves, and say so.
func TestNoRight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := shared{fail: fmt.Errorf("it %w: forbidden", errUnusable)}
		e := s.replica("a", Options{})
		l := look(t, e)
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
		l = look(t, e)
		time.Sleep(MaxReadAge + 1)
		if l.Fresh(time.Now().Add(-MaxReadAge - 1)) {
			t.Error("another replica may have admitted something")
		}
		s.fail = nil
		add(t, e, put("two"))
		if got := others(t, e); got != "ImageTagMirrorSet two, ImageTagMirrorSet one" || len(e.Notes()) != 0 {
			t.Errorf("with the right: counts %q, notes %q", got, e.Notes())
		}
	})
}

// TestRightsChange: that the list can no longer be shared, and that it can again, is found out
// without a change that is reviewed.
func TestRightsChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := shared{fail: errors.New("no route to host")}
		e := s.replica("a", Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go e.Run(ctx)
		forbidden := fmt.Errorf("it %w: forbidden", errUnusable)
		for _, step := range []struct {
			fail     error
			readOnly bool
			want     string
		}{
			{errors.New("no route to host"), false, ""},
			{nil, false, "1"},
			{errors.New("no route to host"), false, "1"}, // and then there are no verdicts
			{forbidden, false, "0"},
			{nil, false, "1"},
			{nil, true, "0"},
			{nil, false, "1"},
		} {
			s.mu.Lock()
			s.fail, s.readOnly = step.fail, step.readOnly
			s.mu.Unlock()
			time.Sleep(announceEvery)
			synctest.Wait()
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
	r.MustRegister(Collector{e})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) == 0 {
		return ""
	}
	return fmt.Sprint(families[0].GetMetric()[0].GetGauge().GetValue())
}

// TestRightToReadOnly: the right to update is missing.
func TestRightToReadOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s shared
		e := s.replica("a", Options{})
		l := look(t, e)
		s.fail = fmt.Errorf("it %w: forbidden", errUnusable)
		if err := e.Add(t.Context(), l, put("one"), mirrors.Set{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		s.fail = nil
		if got := others(t, e); got != "ImageTagMirrorSet one" || len(e.Notes()) != 1 {
			t.Errorf("counts %q, notes %q", got, e.Notes())
		}
	})
}

// TestDeadReplica: what a replica leaves behind counts as long as it may still be stored, from
// when it was first seen, however the clocks are set; then the others take it off the list.
func TestDeadReplica(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s shared
		add(t, s.replica("dead", Options{}), put("one"))
		time.Sleep(24 * time.Hour)
		e := s.replica("b", Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { e.Run(ctx) })
		synctest.Wait()
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
		cancel()
		running.Wait()
	})
}

// TestSweep: an edit goes as soon as it is in force, or can no longer be stored.
func TestSweep(t *testing.T) {
	for _, tt := range []struct {
		reason string
		stored time.Duration // after which it is; 0 for never
		others func(context.Context) (time.Duration, error)
		within time.Duration
		longer time.Duration // that it stays at least
	}{
		{"stored", 100 * time.Millisecond, nil, 2 * sweepEvery, 0},
		{"refused, and no other webhook is slow", 0, func(context.Context) (time.Duration, error) { return 0, nil }, storingMargin + 2*sweepEvery, storingMargin - time.Millisecond},
		{"refused by a webhook with 5 s", 0, func(context.Context) (time.Duration, error) { return 5 * time.Second, nil }, 5*time.Second + storingMargin + 2*sweepEvery, 5*time.Second + storingMargin - time.Millisecond},
		{"refused, and nothing is known of others", 0, func(context.Context) (time.Duration, error) { return 0, errors.New("forbidden") }, MaxStoringTime + 2*sweepEvery, MaxStoringTime - sweepEvery},
		{"refused, and nobody can be asked", 0, nil, MaxStoringTime + 2*sweepEvery, MaxStoringTime - sweepEvery},
	} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, alone %t", tt.reason, alone), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					start := time.Now()
					var s shared
					options := Options{OtherWebhooks: tt.others, InForce: func(context.Context) (mirrors.Set, error) {
						if tt.stored == 0 || time.Since(start) < tt.stored {
							return mirrors.Set{}, nil
						}
						return mirrors.Set{Objects: []mirrors.Object{set("one", "one.example.com")}}, nil
					}}
					e := New(options)
					if !alone {
						e = s.replica("a", options)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go e.Run(ctx)
					add(t, e, put("one"))
					time.Sleep(tt.longer)
					if got := others(t, e); tt.longer > 0 && got == "" {
						t.Errorf("gone before %s", tt.longer)
					}
					time.Sleep(tt.within - tt.longer)
					if got := others(t, e); got != "" || len(s.left()) != 0 {
						t.Errorf("%q is still there after %s", got, tt.within)
					}
				})
			})
		}
	}
}

// TestUnreadable: what another version wrote may be anything, so nothing is decided until it
// goes, or can no longer be stored.
func TestUnreadable(t *testing.T) {
	for _, text := range []string{"garbage", "H4sIAAAAAAAA", packed(t, `[{"v":2,"id":"x","by":"b"}]`), packed(t, `[{"v":1,"id":"x","edit":[{"do":"dance","object":{}}]}]`), packed(t, `[7]`), packed(t, `{}`)} {
		inBubble(t, func(t *testing.T) {
			s := shared{version: 3, text: text}
			e := s.replica("a", Options{})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := e.LookUntil(ctx); err == nil || !strings.Contains(err.Error(), "cannot be read here") {
				t.Errorf("%s: %v", text, err)
			}
			time.Sleep(MaxStoringTime)
			if _, err := e.LookUntil(t.Context()); err != nil {
				t.Errorf("%s, after a while: %v", text, err)
			}
			add(t, e, put("one"))
			if got := others(t, e); got != "ImageTagMirrorSet one" || len(s.left()) != 1 {
				t.Errorf("%s: counts %q, %d entries", text, got, len(s.left()))
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
		var s shared
		a, b := s.replica("a", Options{}), s.replica("b", Options{})
		huge := set("huge", "huge.example.com")
		for i := range 20000 {
			huge.Spec.ImageTagMirrors = append(huge.Spec.ImageTagMirrors, configv1.ImageTagMirrors{Source: idOf(fmt.Append(nil, i))})
		}
		add(t, a, mirrors.Put(huge))
		if n := len(s.text); n > maxEncoded {
			t.Errorf("%d bytes", n)
		}
		if got := others(t, a); got != "ImageTagMirrorSet huge" {
			t.Errorf("its own replica counts %q", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.LookUntil(ctx); err == nil || !strings.Contains(err.Error(), "too large to be shared") {
			t.Errorf("another: %v", err)
		}
	})
}

// TestFull: there is room for so many; then a change waits for some to be stored.
func TestFull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s shared
		e := s.replica("a", Options{})
		for i := range MaxEntries {
			add(t, e, put(fmt.Sprint("o", i)))
		}
		if err := e.Add(t.Context(), look(t, e), put("more"), mirrors.Set{}, time.Time{}); !errors.Is(err, ErrChanged) {
			t.Errorf("with time left: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Add(ctx, look(t, e), put("more"), mirrors.Set{}, time.Time{}); !errors.Is(err, errFull) || errors.Is(err, ErrChanged) {
			t.Errorf("with none left: %v", err)
		}
		alone := New(Options{})
		for i := range 3 * MaxEntries {
			add(t, alone, put(fmt.Sprint("o", i)))
		}
		if n := len(alone.local); n != MaxEntries {
			t.Errorf("alone, %d are kept, want %d", n, MaxEntries)
		}
	})
}

// TestAddAnyway: what is admitted without a verdict counts, be the Lease out of reach.
func TestAddAnyway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s shared
		a, b := s.replica("a", Options{}), s.replica("b", Options{})
		a.AddAnyway(t.Context(), put("one"))
		if got := others(t, b); got != "ImageTagMirrorSet one" {
			t.Errorf("b counts %q", got)
		}
		s.fail = errors.New("gone")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.AddAnyway(ctx, put("two"))
		s.fail = nil
		if got := others(t, a); got != "ImageTagMirrorSet one, ImageTagMirrorSet two" {
			t.Errorf("a counts %q", got)
		}
	})
}

// TestSameObject: an edit replaces an earlier one of the same object.
func TestSameObject(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s shared
		a := s.replica("a", Options{})
		add(t, a, mirrors.Put(set("one", "x.example.com")))
		add(t, a, mirrors.Delete(set("one", "")))
		if got := others(t, a, set("one", "x.example.com")); got != "Deleting ImageTagMirrorSet one" {
			t.Errorf("counts %q", got)
		}
		if got := look(t, a).Others(put("one"), mirrors.Set{}, time.Now()); len(got) != 0 {
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

// TestManyReplicas: of edits added at once by many replicas none is lost, and each knew of all
// before it.
func TestManyReplicas(t *testing.T) {
	var s shared
	var all sync.WaitGroup
	var mu sync.Mutex
	knew := map[int]bool{}
	for i := range 5 {
		e := s.replica(fmt.Sprint("r", i), Options{})
		for n := range 6 {
			all.Go(func() {
				for {
					l, err := e.Look(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					edit := put(fmt.Sprintf("o-%d-%d", i, n))
					before := len(l.Others(edit, mirrors.Set{}, time.Now()))
					if err = e.Add(t.Context(), l, edit, mirrors.Set{}, time.Time{}); err == nil {
						mu.Lock()
						defer mu.Unlock()
						if knew[before] {
							t.Errorf("two were added after %d", before)
						}
						knew[before] = true
						return
					}
					if !errors.Is(err, ErrChanged) {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if n := len(s.left()); n != 30 || len(knew) != 30 {
		t.Errorf("%d entries after %d additions, want 30", n, len(knew))
	}
}
