package healing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A ledgerEntry notes what was really spent, and when.
type ledgerEntry struct {
	at   time.Time
	what Limit
}

// mostInAnHour returns the most that was spent in any hour.
func mostInAnHour(all []ledgerEntry) (most Limit) {
	var sum Limit
	first := 0
	for _, e := range all {
		sum.Bytes += e.what.Bytes
		sum.Requests += e.what.Requests
		for e.at.Sub(all[first].at) >= time.Hour {
			sum.Bytes -= all[first].what.Bytes
			sum.Requests -= all[first].what.Requests
			first++
		}
		most = Limit{max(most.Bytes, sum.Bytes), max(most.Requests, sum.Requests)}
	}
	return most
}

// TestBudgetIsHard: in no hour is more spent than the limit, however requests come, and however often a process
// ends and another goes on with what is written down.
func TestBudgetIsHard(t *testing.T) {
	reached := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := Limit{Bytes: 1 + r.Int64N(100_000), Requests: 1 + r.Int64N(500)}
		now := time.Unix(1_800_000_000, 0)
		written := state{}
		process := func() *meter {
			return &meter{now: func() time.Time { return now }, spent: func(int64, int64) {}, setAside: func(_ context.Context, least Limit) (grant, error) {
				g, ok := written.Spent.setAside(now, least, limit)
				if !ok {
					return g, errSpent
				}
				text, err := json.Marshal(written) // what survives is what was written
				if err != nil {
					return g, err
				}
				written = state{}
				return g, json.Unmarshal(text, &written)
			}}
		}
		m := process()
		var all []ledgerEntry
		refused := 0
		for range 4000 {
			now = now.Add(time.Duration(r.Int64N(int64(10 * time.Second))))
			if r.IntN(50) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(40 * time.Minute))))
			}
			if r.IntN(100) == 0 {
				m = process()
			}
			what := Limit{Requests: 1}
			if r.IntN(2) == 0 {
				what = Limit{Bytes: 1 + r.Int64N(1+limit.Bytes/20)}
			}
			switch err := m.take(t.Context(), what); {
			case errors.Is(err, errSpent):
				refused++
			case err != nil:
				t.Fatal(err)
			default:
				all = append(all, ledgerEntry{now, what})
			}
		}
		most := mostInAnHour(all)
		if most.Bytes > limit.Bytes || most.Requests > limit.Requests {
			t.Fatalf("seed %d: %+v in an hour, the limit is %+v", seed, most, limit)
		}
		if refused > 0 && most.Requests > limit.Requests*8/10 || most.Bytes > limit.Bytes*8/10 {
			reached++
		}
	}
	if reached < 30 {
		t.Errorf("the limit was nearly reached %d times of 60: it is hardly tested", reached)
	}
}

// TestClockSetBack: what was set aside by a clock that was ahead counts until that hour is over for all clocks.
func TestClockSetBack(t *testing.T) {
	limit := Limit{Bytes: 100, Requests: 10}
	ahead := time.Unix(1_800_000_000, 0)
	var s spending
	if _, ok := s.setAside(ahead, limit, limit); !ok {
		t.Fatal("nothing was spent, and the budget is refused")
	}
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{
		{-48 * time.Hour, false},
		{-time.Minute, false},
		{59 * time.Minute, false},
		{time.Hour + time.Minute, false}, // it may have been spent a minute later
		{time.Hour + 3*time.Minute, true},
	} {
		of := append(spending(nil), s...)
		if _, ok := of.setAside(ahead.Add(tt.after), Limit{Bytes: 1}, limit); ok != tt.want {
			t.Errorf("%s later: allowed: %v, want %v", tt.after, ok, tt.want)
		}
	}
	back := ahead.Add(-48 * time.Hour)
	wide := Limit{Bytes: 1000, Requests: 100}
	g, ok := s.setAside(back, Limit{Bytes: 1}, wide)
	if !ok || g.minute != minuteOf(ahead) || g.isOver(back) {
		t.Errorf("got %+v, %v: what is spent by a clock that was set back has to count as long as what was spent before", g, ok)
	}
}

// TestMeterNeedsTheState: what cannot be written down is not spent.
func TestMeterNeedsTheState(t *testing.T) {
	m := &meter{now: time.Now, spent: func(int64, int64) { t.Error("something was spent") }, setAside: func(context.Context, Limit) (grant, error) {
		return grant{}, fmt.Errorf("the API server is away")
	}}
	if err := m.Request(t.Context()); err == nil || err.Error() != "the budget could not be written down: the API server is away" {
		t.Errorf("got %v", err)
	}
	if m.isEmpty() {
		t.Error("the budget counts as spent")
	}
}

// TestClockAhead: a clock that is two hours ahead for a moment gives no second budget to a process that has spent it, and an hour that passes
// does.
func TestClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := Limit{Bytes: 100, Requests: 10}
		var own ownSpending
		s := state{}
		take := func(ahead time.Duration, least Limit) bool {
			g, ok := own.setAside(&s.Spent, time.Now().Add(ahead), least, limit)
			if ok {
				own.note(g)
			}
			return ok
		}
		if !take(0, Limit{Bytes: 99, Requests: 9}) {
			t.Fatal("nothing was spent, and nothing is granted")
		}
		time.Sleep(time.Second)
		if !take(2*time.Hour, Limit{Bytes: 1, Requests: 1}) {
			t.Error("the rest is not granted")
		}
		if take(2*time.Hour, Limit{Bytes: 1}) || take(2*time.Hour, Limit{Requests: 1}) {
			t.Error("the clock grants a second budget")
		}
		if take(-2*time.Hour, Limit{Bytes: 1}) {
			t.Error("a clock that was set back grants one")
		}
		time.Sleep(4 * time.Hour)
		if !take(0, limit) {
			t.Error("hours later, nothing is granted")
		}
	})
}

// TestResumeFull: where as many copies are remembered as may be, and nothing is stopped, a person lets copying go on, to one registry or to all.
func TestResumeFull(t *testing.T) {
	full := func() *state {
		var s state
		for n := range maxHealed {
			s.noteHealed(mirrors.Location{Ref: fmt.Sprintf("m%d.example.com/x@sha256:%064x", n%2, n)}, time.Unix(1, 0))
		}
		s.stop("m1.example.com", stop{})
		return &s
	}
	for _, tt := range []struct {
		hosts, resumed string
		left, stopped  int
	}{
		{"m0.example.com", "m0.example.com", maxHealed / 2, 1},
		{"m1.example.com", "m1.example.com", maxHealed / 2, 0},
		{everyRegistry, "m0.example.com m1.example.com", 0, 0},
		{"m2.example.com", "", maxHealed, 1},
	} {
		s := full()
		if got := strings.Join(s.resume([]string{tt.hosts}), " "); got != tt.resumed || s.healed() != tt.left || len(s.Stopped) != tt.stopped {
			t.Errorf("%s: resumed %q, %d copies remembered, %d stopped", tt.hosts, got, s.healed(), len(s.Stopped))
		}
	}
}
