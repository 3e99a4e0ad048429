package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/connection"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// What of a registry's words may be shown, and together with the guard's own.
const (
	MaxDetail = 200 // runes of a Fact's Detail
	MaxQuote  = 80  // runes of a registry's own words within it
)

// A Failure is the reason why a location does not serve an image. It is an error until it
// becomes a Fact.
type Failure struct {
	Presence policy.Presence
	// Detail names the registry, what it did, and what to do about it.
	Detail string
	// Status is that of the answer, 0 if there was none.
	Status int
	// NoRepository is Fact.NoRepository.
	NoRepository bool
	// load is set if the registry, or the path to it, is overloaded or broken, so
	// that asking more would make it worse.
	load load
	// again is set if the same request may be answered in a moment.
	again bool
	// after is when the registry wants to be asked again, 0 if unknown.
	after time.Duration
	// timedOut is set if there was no answer in time, refused if the guard declined to ask.
	timedOut, refused bool
	// trouble is Fact.Trouble.
	trouble policy.Trouble
}

func (f *Failure) Error() string { return f.Detail }

const (
	// maxAgain is how often a request is retried that a registry could not answer at the
	// moment. Nodes do so 4 times, for 429 only.
	maxAgain   = 3
	firstPause = 100 * time.Millisecond
)

// passes reports whether the same request, which has failed so many times before, may be answered in a moment.
func (f *Failure) passes(before int) bool {
	return f.again && before < maxAgain && f.after <= maxRetryWait
}

// again calls do, and once more after each failure that mayRepeat says so of: when the registry wants to be asked, or
// after twice as long each time.
func again(ctx context.Context, mayRepeat func(f *Failure, attempt int) bool, do func() error) error {
	for attempt := 0; ; attempt++ {
		err := do()
		var f *Failure
		if !errors.As(err, &f) || !mayRepeat(f, attempt) {
			return err
		}
		rest := firstPause << min(attempt, maxAgain)
		if pause.For(ctx, max(f.after, rest/2+rand.N(rest/2)), nil) != nil { //nolint:gosec // not a secret
			return err
		}
	}
}

// IsTemporary reports whether the same may succeed later.
func (f *Failure) IsTemporary() bool {
	return f.again || f.load == throttled || f.load == broken && !f.refused
}

// Fact returns f as what is known about a location since now.
func (f *Failure) Fact(now time.Time) policy.Fact {
	fact := policy.Fact{Presence: f.Presence, Detail: text.OneLine(f.Detail, MaxDetail), NoRepository: f.NoRepository, Time: now}
	if f.trouble != (policy.Trouble{}) {
		fact.Trouble = &f.trouble
	}
	return fact
}

// Unreachable returns the failure for an answer that nodes cannot use; connectionFailure for none.
func Unreachable(format string, args ...any) *Failure {
	return &Failure{Presence: policy.Unreachable, Detail: fmt.Sprintf(format, args...), trouble: policy.Trouble{Cause: policy.Strange}}
}

// statusFailure returns what an answer other than 200 means.
func statusFailure(host string, r Response) *Failure {
	f := Unreachable("%s answers %s%s", host, r.StatusText(), r.Says())
	f.Status = r.Status
	switch {
	case r.Status == http.StatusNotFound, r.Status == http.StatusGone:
		f.Presence, f.NoRepository, f.trouble = policy.Absent, r.SaysNoRepository(), policy.Trouble{}
		f.Detail = fmt.Sprintf("%s answers %d: it does not hold this image%s", host, r.Status, r.Says())
	case r.Status == http.StatusTooManyRequests:
		f.trouble.Cause = policy.Overloaded
		f.load, f.again, f.after = throttled, true, retryAfter(r.Header, time.Now())
		f.Detail = fmt.Sprintf("%s limits the rate of requests (429); try again %s", host, inAWhile(f.after))
	case r.Status >= 500 && r.Status != http.StatusNotImplemented && r.Status != http.StatusInsufficientStorage: // which do not pass
		f.trouble.Cause = policy.Overloaded
		f.load, f.again, f.after = overloaded, true, retryAfter(r.Header, time.Now())
		f.Detail = fmt.Sprintf("%s is failing: it answers %s%s; try again when it has recovered", host, r.StatusText(), r.Says())
	case r.redirected != "" && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden):
		f.trouble.Cause = policy.Redirecting
		f.Detail = fmt.Sprintf("%s redirects to %s, which answers %d; credentials are not sent along a redirect",
			host, text.OneLine(r.redirected, MaxQuote), r.Status)
	}
	return f
}

func inAWhile(d time.Duration) string {
	if d <= 0 {
		return "later"
	}
	return "in " + d.Round(time.Second).String()
}

// Quote marks words as not the guard's own.
func Quote(s string) string { return text.Quote(s, MaxQuote) }

// connectionFailure returns what it means that host gave no answer. The error is not quoted
// as a whole: it can hold the query of a URL, or a proxy's password.
func connectionFailure(host string, err error, timeout time.Duration) *Failure {
	cause, detail := connection.Describe(host, err, timeout)
	f := &Failure{Presence: policy.Unreachable, Detail: detail, trouble: policy.Trouble{Cause: cause}, load: broken, timedOut: connection.IsTimeout(err)}
	switch {
	case cause == policy.NeverAsked, cause == policy.Redirecting:
		f.load, f.refused = fine, true // which says nothing about the registry's load
	case connection.IsReset(err):
		f.load, f.again = overloaded, true
	}
	return f
}
