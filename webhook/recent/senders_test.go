package recent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/fairshare"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// from returns a context of a request from an address, that ends after some time.
func from(t *testing.T, sender string, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(fairshare.WithClaimant(t.Context(), fairshare.Claimant{Name: sender}), limit)
	t.Cleanup(cancel)
	return ctx
}

// A cluster is one in which what is stored is in force.
type cluster struct {
	mu  sync.Mutex
	set mirrors.Set
}

func (c *cluster) inForce() mirrors.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set
}

// stored returns what is in force of the objects of edits, and nothing else.
func (c *cluster) stored(_ context.Context, edits []mirrors.Edit) (mirrors.Set, error) {
	var found mirrors.Set
	for _, o := range c.inForce().Objects {
		if mirrors.Put(o).Overlaps(mirrors.Join(edits...)) {
			found = mirrors.Put(o).Apply(found)
		}
	}
	return found, nil
}

func (c *cluster) store(o mirrors.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set = mirrors.Put(o).Apply(c.set)
}

// edits returns Edits of a cluster without other webhooks, which run until the test ends.
func (c *cluster) edits(t *testing.T) *Edits {
	t.Helper()
	e := New(Options{Stored: c.stored, OtherWebhooks: func(context.Context) (time.Duration, error) { return 0, nil }})
	run(t, e)
	synctest.Wait()
	return e
}

// send adds an edit as one that a sender asks for.
func send(t *testing.T, e *Edits, sender, name string, limit time.Duration) error {
	t.Helper()
	ctx := from(t, sender, limit)
	for {
		err := e.Add(ctx, view(t, e), Change{Edit: put(name), Confirms: func(mirrors.Set) (made, proven bool) { return true, true }})
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
}

// TestKnownSenders: who has sent an edit that came goes first, is not limited, and stays so while
// some do not come.
func TestKnownSenders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var c cluster
		e := c.edits(t)
		if e.Rank("") != RankKnown || e.Rank("api") != rankFresh {
			t.Errorf("ranks %d and %d", e.Rank(""), e.Rank("api"))
		}
		if err := send(t, e, "api", "one", time.Second); err != nil {
			t.Fatal(err)
		}
		c.store(set("one", "one.example.com"))
		time.Sleep(sweepEvery)
		if e.Rank("api") != RankKnown {
			t.Errorf("rank %d", e.Rank("api"))
		}
		for i := range trusted {
			if e.Rank("api") != RankKnown {
				t.Errorf("after %d that did not come, it is forgotten", i)
			}
			if err := send(t, e, "api", fmt.Sprint("never", i), time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(storingMargin + 2*sweepEvery)
		}
		if e.Rank("api") != rankFresh {
			t.Errorf("rank %d", e.Rank("api"))
		}
		time.Sleep(forgetAfter)
		if e.Rank("api") != RankKnown {
			t.Error("it is not forgotten")
		}
	})
}

// TestSlowed: edits of a sender that never come keep others out for a part of the time that becomes
// smaller and smaller.
func TestSlowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var c cluster
		e := c.edits(t)
		start, kept, n := time.Now(), time.Duration(0), 0
		for time.Since(start) < 5*time.Minute {
			if err := send(t, e, "stranger", fmt.Sprint("never", n), 500*time.Millisecond); err == nil {
				n++
			}
			for before := time.Now(); others(t, e) != ""; time.Sleep(100 * time.Millisecond) {
				kept = time.Since(before)
				if kept > suspectTime+2*sweepEvery {
					t.Fatalf("one counts for %s", kept)
				}
			}
		}
		if n > 20 {
			t.Errorf("%d were admitted in 5 minutes", n)
		}
		if e.Rank("stranger") != rankSuspect {
			t.Errorf("rank %d", e.Rank("stranger"))
		}
	})
}

// TestSuspectsCountShortly: what a suspect sends counts for seconds, though other webhooks may take longer.
func TestSuspectsCountShortly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var c cluster
		e := New(Options{Stored: c.stored, OtherWebhooks: func(context.Context) (time.Duration, error) { return MaxStoringTime / 2, nil }})
		run(t, e)
		for n := 0; ; n++ {
			rank := e.Rank("stranger")
			if err := send(t, e, "stranger", fmt.Sprint("never", n), time.Minute); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			for others(t, e) != "" {
				time.Sleep(100 * time.Millisecond)
			}
			took := time.Since(start)
			if rank == rankSuspect {
				if took > suspectTime+2*sweepEvery {
					t.Errorf("one counts for %s", took)
				}
				return
			}
			if took < MaxStoringTime/2 {
				t.Errorf("one that may still come counts for %s", took)
			}
		}
	})
}

// TestStrangersShare: all who are not known have a part of the list, and each of them a part of
// that; who is known has room.
func TestStrangersShare(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var c cluster
		e := c.edits(t)
		n := 0
		for i := range maxUnknown {
			for k := range MaxEntries {
				if send(t, e, fmt.Sprint("stranger", i), fmt.Sprintf("x-%d-%d", i, k), time.Millisecond) != nil {
					if k > freshMost {
						t.Errorf("one has %d", k)
					}
					break
				}
				n++
			}
		}
		if n != maxUnknown {
			t.Errorf("%d are in the list, want %d", n, maxUnknown)
		}
		if err := send(t, e, "", "known", time.Millisecond); err != nil {
			t.Errorf("there is no room left: %v", err)
		}
		time.Sleep(storingMargin + 2*sweepEvery)
		if got := others(t, e); got != "" {
			t.Errorf("%q count for ever", got)
		}
		if err := send(t, e, "another", "later", time.Millisecond); err != nil {
			t.Errorf("the room is not given back: %v", err)
		}
		for i := range 3 * maxSenders {
			e.Rank(fmt.Sprint("s", i))
			e.senders.mu.Lock()
			e.senders.get(fmt.Sprint("s", i))
			e.senders.mu.Unlock()
		}
		if n := len(e.senders.by); n > maxSenders {
			t.Errorf("%d senders are remembered", n)
		}
		for i := range 2 * maxUnknown {
			e.newClaim(from(t, fmt.Sprint("waiting ", i), time.Second), put("mine"))
		}
		if n := len(view(t, e).claims(put("-"), rankSuspect)); n != maxUnknown || e.newClaim(t.Context(), put("known")) == nil {
			t.Errorf("%d wait, want %d", n, maxUnknown)
		}
		time.Sleep(rememberOver + 2*announceEvery)
		await()
		if len(e.over) > 0 {
			t.Errorf("%d are remembered that were over long ago", len(e.over))
		}
	})
}

// TestClaim: other replicas are told what waits, until it is withdrawn or gone; it is waited for
// by nobody, and keeps nothing from being added.
func TestClaim(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		var c cluster
		options := Options{Stored: c.stored, OtherWebhooks: func(context.Context) (time.Duration, error) { return 0, nil }}
		a, b := s.replica(t, "a", options), s.replica(t, "b", options)
		stranger := from(t, "stranger", time.Second)
		a.senders.get("suspect").failed, a.senders.get("suspect").failure = forgiven+1, time.Now()
		if New(Options{}).mayClaim(t.Context()) || !a.mayClaim(t.Context()) || !a.mayClaim(stranger) || a.mayClaim(from(t, "suspect", time.Second)) {
			t.Error("somebody may claim who may not, or may not who may")
		}
		add(t, b, put("before"))
		claims := func(e *Edits, of mirrors.Edit) (names []string) {
			if len(view(t, e).claims(of, RankKnown)) > 0 {
				t.Error("who is known is kept waiting by one whose turn is not before")
			}
			for _, edit := range view(t, e).claims(of, rankFresh) {
				names = append(names, edit.Subject())
			}
			return names
		}
		claim := a.newClaim(t.Context(), put("mine"))
		await()
		for name, e := range map[string]*Edits{"a": a, "b": b} {
			if got := fmt.Sprint(others(t, e), claims(e, put("-"))); got != "ImageTagMirrorSet before[ImageTagMirrorSet mine]" || len(claims(e, put("mine"))) != 0 {
				t.Errorf("%s has %s", name, got)
			}
		}
		held := view(t, a)
		if err := claim.await(from(t, "", time.Second), held); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing is over yet: %v", err)
		}
		if err := claim.await(t.Context(), held); err != nil || others(t, b) != "" {
			t.Errorf("%v, %q", err, others(t, b))
		}
		if err := claim.await(t.Context(), held); err != nil {
			t.Errorf("it was over while the edit was judged: %v", err)
		}
		behind := a.newClaim(from(t, "stranger", time.Second), put("behind"))
		held = view(t, a)
		behind.withdraw()
		if err := claim.await(from(t, "", time.Second), held); err == nil {
			t.Error("what comes later was waited for")
		}
		behind = a.newClaim(from(t, "stranger", time.Second), put("behind"))
		held = view(t, a)
		time.Sleep(MaxStoringTime)
		if len(claims(a, put("-"))) != 1 {
			t.Error("what waits is given up")
		}
		add(t, b, put("after"))
		claim.withdraw()
		if err := behind.await(t.Context(), held); err != nil {
			t.Errorf("what came first has gone: %v", err)
		}
		behind.withdraw()
		await()
		if len(claims(a, put("-")))+len(claims(b, put("-"))) != 0 || len(s.left()) != 1 {
			t.Errorf("withdrawn: %q, %q", claims(a, put("-")), claims(b, put("-")))
		}
		a.newClaim(t.Context(), put("other"))
		await()
		s.set(func() { s.readOnly = true }) // it cannot be put back
		s.put("")
		await()
		if len(claims(b, put("-"))) != 0 {
			t.Error("what is gone from the list counts")
		}
	})
}

// TestConfirms: who makes nothing of what is in force, or cannot be proved to, is not credited with it.
func TestConfirms(t *testing.T) {
	for _, made := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			var c cluster
			e := c.edits(t)
			told := make(chan bool, 1)
			change := Change{Edit: put("one"), Confirms: func(mirrors.Set) (bool, bool) { return made, false }, Done: func(stored bool) { told <- stored }}
			if err := e.Add(from(t, "stranger", time.Second), view(t, e), change); err != nil {
				t.Fatal(err)
			}
			c.store(set("one", "one.example.com"))
			time.Sleep(sweepEvery)
			if stored := <-told; e.Rank("stranger") != rankFresh || stored != made {
				t.Errorf("rank %d, stored %t", e.Rank("stranger"), stored)
			}
		})
	}
}

// TestRemembered: whom one replica knows others know, and those that start later; and who has proved
// to be an API server is known without an edit.
func TestRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		var c cluster
		a, b := s.replica(t, "a", Options{Stored: c.stored}), s.replica(t, "b", Options{Stored: c.stored})
		b.Vouch("10.0.0.2")
		for i, e := range []*Edits{a, b} {
			if err := send(t, e, "10.0.0.1", fmt.Sprint("n", i), time.Second); err != nil {
				t.Fatal(err)
			}
			c.store(set(fmt.Sprint("n", i), fmt.Sprintf("n%d.example.com", i)))
			time.Sleep(sweepEvery)
		}
		for _, e := range []*Edits{a, b, s.replica(t, "c", Options{})} {
			if got := fmt.Sprint(e.Rank("10.0.0.1"), e.Rank("10.0.0.2"), e.Rank("10.0.0.3")); got != fmt.Sprint(RankKnown, RankKnown, rankFresh) {
				t.Errorf("%s has ranks %s", e.instance, got)
			}
		}
	})
	if got := knownIn("," + strings.Repeat("x,10.0.0.1,::1,", 20)); len(got) != maxRemembered || got[1] != "::1" {
		t.Errorf("read %q", got)
	}
}

// TestStrangersInTheWay: what senders that are not known have admitted is in no dry run, through whichever
// replica, and in the way of others for as long as it might still be stored and not a moment longer.
func TestStrangersInTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		var c cluster
		const theirs = time.Second // the time of other webhooks
		options := Options{Stored: c.stored, OtherWebhooks: func(context.Context) (time.Duration, error) { return theirs, nil }}
		a, b := s.replica(t, "a", options), s.replica(t, "b", options)
		for _, sender := range []string{"", "stranger"} {
			if err := send(t, a, sender, "of "+sender, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		await()
		for _, e := range []*Edits{a, b} {
			admitted := view(t, e).admitted().Others(put("-"), mirrors.Set{}, time.Now())
			if len(admitted) != 1 || admitted[0].Subject() != put("of ").Subject() {
				t.Errorf("%s judges dry runs with %v", e.instance, admitted)
			}
			start, claim := time.Now(), e.newClaim(t.Context(), put("mine"))
			if err := claim.await(t.Context(), view(t, e)); err != nil || time.Since(start) > theirs+storingMargin+2*pollInterval {
				t.Errorf("%s waits for %s: %v", e.instance, time.Since(start), err)
			}
			claim.withdraw()
			time.Sleep(MaxStoringTime)
			if err := send(t, a, "stranger", "again", time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := send(t, a, "", "of ", time.Minute); err != nil {
				t.Fatal(err)
			}
			await()
		}
	})
}

// TestOrders: which of several edits of one object is stored last is not known.
func TestOrders(t *testing.T) {
	for _, tt := range []struct {
		edits []mirrors.Edit
		want  int
	}{
		{nil, 0},
		{[]mirrors.Edit{put("a"), put("b")}, 1},
		{[]mirrors.Edit{put("a"), put("b"), mirrors.Delete(set("a", ""))}, 2},
	} {
		if got := orders(tt.edits); len(got) != tt.want || tt.want == 2 && got[1][0].Subject() != "Deleting ImageTagMirrorSet a" {
			t.Errorf("%v", got)
		}
	}
}
