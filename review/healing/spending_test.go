package healing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
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
