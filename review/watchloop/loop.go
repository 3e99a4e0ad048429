package watchloop

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
)

const (
	// sooner divides the wait after a round that left something open.
	sooner = 4
	// leastPause is the least time between two rounds, however often something changes.
	leastPause = time.Second
)

// A Loop makes one round after another for a purpose that is verified again and again. Errors and panics are
// logged, and the next round may do better: no fault in a round may keep reviews from being answered.
type Loop struct {
	// Steady rounds come every after the end of the one before; others up to a quarter sooner or later, so
	// that replicas and purposes do not ask all at once.
	Steady bool

	every time.Duration
	fault string
	log   logr.Logger
	soon  chan struct{}
}

// NewLoop returns a Loop whose rounds are every apart. The log has fault with the error of a round.
func NewLoop(every time.Duration, fault string, log logr.Logger) *Loop {
	return &Loop{every: every, fault: fault, log: log, soon: make(chan struct{}, 1)}
}

// Soon has the next round begin at once. It may be called at any time, by anyone.
func (l *Loop) Soon() {
	select {
	case l.soon <- struct{}{}:
	default: // it is to begin at once already
	}
}

// Run calls round until ctx ends; the round after one that is not settled comes sooner.
func (l *Loop) Run(ctx context.Context, round func(context.Context) (settled bool, err error)) {
	for {
		settled := true // if it panics
		err := panics.Recovered(func() (err error) {
			settled, err = round(ctx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			l.log.Error(err, l.fault, "stack", panics.StackOf(err))
		}
		wait := l.every
		if !l.Steady {
			wait = l.every*3/4 + rand.N(l.every/2+1) //nolint:gosec // not a secret
		}
		if !settled {
			wait /= sooner
		}
		if pause.For(ctx, min(wait, leastPause), nil) != nil || pause.For(ctx, wait-leastPause, l.soon) != nil {
			return
		}
	}
}

// confirmations is how many rounds in a row must find the same before that is reported: a registry may be
// halfway through a restart.
const confirmations = 2

// A Trial keeps a finding of one round alone from being reported. S is the state that rounds find.
type Trial[S comparable] struct {
	Reported S // last; the zero value if nothing was
	Found    S // by the latest round that has found something
	rounds   int
}

// Find enters what a round has found.
func (t *Trial[S]) Find(s S) {
	if t.Found != s {
		t.rounds = 0
	}
	t.Found = s
	t.rounds++
}

// Interrupt enters that a round has found nothing, so that the rounds before it do not count.
func (t *Trial[S]) Interrupt() { t.rounds = 0 }

// Rounds returns how many rounds in a row have found s.
func (t *Trial[S]) Rounds(s S) int {
	if t.Found != s {
		return 0
	}
	return t.rounds
}

// Differs reports whether the latest round contradicts what was reported.
func (t *Trial[S]) Differs() bool { return t.Found != t.Reported }

// IsNews reports whether there is something to report.
func (t *Trial[S]) IsNews() bool { return t.Differs() && t.rounds >= confirmations }

// MarkReported notes that it was reported.
func (t *Trial[S]) MarkReported() { t.Reported = t.Found }
