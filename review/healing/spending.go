package healing

import (
	"slices"
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
	kept := s.since(now)
	at := slices.IndexFunc(kept, func(in spent) bool { return in.Minute == g.minute })
	if at < 0 {
		at = len(kept)
		kept = append(kept, spent{Minute: g.minute})
	}
	kept[at].Bytes += g.Bytes
	kept[at].Requests += g.Requests
	*s = kept
	return g, true
}
