package presence

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A job is a location that is to be looked up, once, for however many callers.
type job struct {
	location mirrors.Location
	done     chan struct{}
	fact     policy.Fact // once done
	waiting  int         // callers that still wait
	asked    time.Time   // when a caller last did
	started  bool
}

// A lane holds the jobs for one registry. It is one job wide until the registry has
// been seen to answer, so that one that is dead takes the place of one request and
// not of hundreds. Jobs run in the order in which callers named them, the most
// important first. To spread them over repositories, as clients do that fetch a
// token for each, would save nothing here: tokens are fetched ahead, for many
// repositories at a time.
type lane struct {
	key     laneKey
	now     []*job             // somebody waits for these
	again   []*job             // somebody waits for these, and knows something
	later   []*job             // nobody does any more
	kept    []*job             // nobody does yet: they keep facts fresh
	fresh   []mirrors.Location // those that nothing was prepared for yet
	running int
	state   laneState
	ready   bool // whether it is in the store's list of lanes that have work
}

type laneKey struct {
	host     string
	insecure bool
}

type laneState int

const (
	opening laneState = iota // the registry is asked whether it answers
	opened                   // it does
	broke                    // it does not: one at a time
)

// next returns the job to run next, nil if there is none; one that keeps a fact fresh
// only if that is allowed. Jobs that nobody wants any more are handed to drop.
func (l *lane) next(now time.Time, linger time.Duration, drop func(*job), keep bool) *job {
	for _, queue := range []*[]*job{&l.now, &l.again} {
		if j := l.takeAwaited(queue); j != nil {
			return j
		}
	}
	j := takeWanted(&l.later, now, linger, drop)
	if j == nil && keep {
		j = takeWanted(&l.kept, now, linger, drop)
	}
	return j
}

// takeAwaited takes the first job off a queue that somebody waits for.
func (l *lane) takeAwaited(queue *[]*job) *job {
	for len(*queue) > 0 {
		j := (*queue)[0]
		*queue = (*queue)[1:]
		switch {
		case j.started:
		case j.waiting == 0:
			l.later = append(l.later, j)
		default:
			return j
		}
	}
	return nil
}

// takeWanted takes the first job off a queue of those that nobody waits for.
func takeWanted(queue *[]*job, now time.Time, linger time.Duration, drop func(*job)) *job {
	for len(*queue) > 0 {
		j := (*queue)[0]
		*queue = (*queue)[1:]
		switch {
		case j.started:
		case now.Sub(j.asked) > linger:
			drop(j)
		default:
			return j
		}
	}
	return nil
}

// width returns how many jobs may run at a time.
func (l *lane) width(most int) int {
	switch l.state {
	case opened:
		return most
	case broke:
		return 1
	default:
		return 0
	}
}
