package healing

import (
	"slices"
	"sync"
	"time"
)

// A Limit is the most that may be spent in any hour.
type Limit struct {
	Bytes, Requests int64
}

// spending is what was spent lately, by minute. It is part of the state that replicas share.
type spending []spent

// spent is what was set aside in a minute, and spent in it or in the next.
type spent struct {
	Minute   int64 `json:"minute"` // since 1970
	Bytes    int64 `json:"bytes"`
	Requests int64 `json:"requests"`
}

const (
	// window is for how many minutes what was set aside counts: an hour after the last moment in
	// which it may have been spent.
	window = 60 + grantMinutes
	// grantMinutes is for how many minutes, begun ones included, a grant may be spent.
	grantMinutes = 2
	// shares is into how many grants a limit is divided at least, and so how often the state is written in
	// an hour of copying without a pause.
	shares = 64
)

// A grant allows bytes and requests to be spent without asking again.
type grant struct {
	Bytes, Requests int64
	minute          int64
}

func minuteOf(now time.Time) int64 { return now.Unix() / int64(time.Minute/time.Second) }

// isOver reports whether what is left of g may not be spent any more.
func (g grant) isOver(now time.Time) bool {
	return minuteOf(now) >= g.minute+grantMinutes
}

// used returns what counts against the limit of this hour. What a clock that was ahead has noted for the
// future counts, too.
func (s spending) used(now time.Time) (used Limit) {
	for _, in := range s.since(now) {
		used.Bytes += in.Bytes
		used.Requests += in.Requests
	}
	return used
}

func (s spending) since(now time.Time) spending {
	oldest := minuteOf(now) - window + 1
	return slices.DeleteFunc(slices.Clone(s), func(in spent) bool { return in.Minute < oldest })
}

func (s spending) latest() (minute int64) {
	for _, in := range s {
		minute = max(minute, in.Minute)
	}
	return minute
}

// setAside notes a grant as spent, and returns it. It has at least as many bytes and requests as least has, and of
// those that least wants at all, a share of the limit, as far as that much is left. It reports false, and notes
// nothing, if less than least is left.
func (s *spending) setAside(now time.Time, least, limit Limit) (grant, bool) {
	used := s.used(now)
	left := Limit{Bytes: limit.Bytes - used.Bytes, Requests: limit.Requests - used.Requests}
	if least.Bytes > left.Bytes || least.Requests > left.Requests {
		return grant{}, false
	}
	g := grant{minute: max(minuteOf(now), s.latest())} // where a clock was set back, too
	if least.Bytes > 0 {
		g.Bytes = min(left.Bytes, max(least.Bytes, limit.Bytes/shares))
	}
	if least.Requests > 0 {
		g.Requests = min(left.Requests, max(least.Requests, limit.Requests/shares))
	}
	*s = s.since(now)
	s.note(g)
	return g, true
}

// note notes a grant as spent.
func (s *spending) note(g grant) {
	at := slices.IndexFunc(*s, func(in spent) bool { return in.Minute == g.minute })
	if at < 0 {
		at = len(*s)
		*s = append(*s, spent{Minute: g.minute})
	}
	(*s)[at].Bytes += g.Bytes
	(*s)[at].Requests += g.Requests
}

// ownSpending is the spending of this process, by a clock that cannot be set: one that jumps ahead must not make an hour pass. The zero
// value is nothing.
type ownSpending struct {
	mu    sync.Mutex
	began time.Time // with a monotonic reading; not those of other processes
	spent spending
}

// now returns the time since the first call, as a time.
func (o *ownSpending) now() time.Time {
	if o.began.IsZero() {
		o.began = time.Now()
	}
	return time.Unix(0, 0).Add(time.Since(o.began))
}

// setAside is that of shared, which replicas share by their clocks, as far as what this process was granted in the last hour leaves room.
func (o *ownSpending) setAside(shared *spending, now time.Time, least, limit Limit) (grant, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own, used := o.spent.used(o.now()), shared.used(now)
	limit.Bytes = min(limit.Bytes, max(0, limit.Bytes-own.Bytes)+used.Bytes)
	limit.Requests = min(limit.Requests, max(0, limit.Requests-own.Requests)+used.Requests)
	return shared.setAside(now, least, limit)
}

// note notes a grant of setAside, once that was written down.
func (o *ownSpending) note(g grant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	o.spent = o.spent.since(now)
	g.minute = minuteOf(now)
	o.spent.note(g)
}
