package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/connection"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const (
	maxDetail = 200 // runes of a Fact's Detail
	maxQuote  = 80  // runes of a registry's own words within it
)

// A failure is the reason why a location does not serve an image. It is an error until it
// becomes a Fact.
type failure struct {
	presence policy.Presence
	// detail names the registry, what it did, and what to do about it.
	detail string
	// load is set if the registry, or the path to it, is overloaded or broken, so
	// that asking more would make it worse.
	load load
	// again is set if the same request may be answered in a moment.
	again bool
	// after is when the registry wants to be asked again, 0 if unknown.
	after time.Duration
	// status is that of the answer, 0 if there was none.
	status int
	// timedOut is set if there was no answer in time, refused if the guard declined to ask.
	timedOut, refused bool
	// noRepository is Fact.NoRepository.
	noRepository bool
	// cache is set if it is the answer of a pull-through cache to an upload.
	cache bool
	// trouble is Fact.Trouble.
	trouble policy.Trouble
}

func (f *failure) Error() string { return f.detail }

const (
	// maxAgain is how often a request is retried that a registry could not answer at the
	// moment. Nodes do so 4 times, for 429 only.
	maxAgain   = 3
	firstPause = 100 * time.Millisecond
)

// passes reports whether the same request, which has failed so many times before, may be answered in a moment.
func (f *failure) passes(before int) bool {
	return f.again && before < maxAgain && f.after <= maxRetryWait
}

// again calls do, and once more after each failure that mayRepeat says so of: when the registry wants to be asked, or
// after twice as long each time.
func again(ctx context.Context, mayRepeat func(f *failure, attempt int) bool, do func() error) error {
	for attempt := 0; ; attempt++ {
		err := do()
		var f *failure
		if !errors.As(err, &f) || !mayRepeat(f, attempt) {
			return err
		}
		rest := firstPause << min(attempt, maxAgain)
		if sleep(ctx, max(f.after, rest/2+rand.N(rest/2))) != nil { //nolint:gosec // not a secret
			return err
		}
	}
}

func (f *failure) fact(now time.Time) policy.Fact {
	fact := policy.Fact{Presence: f.presence, Detail: text.OneLine(f.detail, maxDetail), NoRepository: f.noRepository, Time: now}
	if f.trouble != (policy.Trouble{}) {
		fact.Trouble = &f.trouble
	}
	return fact
}

// unreachable is for an answer that nodes cannot use; connectionFailure for none.
func unreachable(format string, args ...any) *failure {
	return &failure{presence: policy.Unreachable, detail: fmt.Sprintf(format, args...), trouble: policy.Trouble{Cause: policy.Strange}}
}

func mismatch(format string, args ...any) *failure {
	return &failure{presence: policy.Mismatch, detail: fmt.Sprintf(format, args...)}
}

func incomplete(format string, args ...any) *failure {
	return &failure{presence: policy.Incomplete, detail: fmt.Sprintf(format, args...)}
}

// statusFailure returns what an answer other than 200 means.
func statusFailure(host string, r response) *failure {
	f := unreachable("%s answers %s%s", host, statusText(r.status), says(r))
	f.status = r.status
	switch {
	case r.status == http.StatusNotFound, r.status == http.StatusGone:
		f.presence, f.noRepository, f.trouble = policy.Absent, saysNoRepository(r), policy.Trouble{}
		f.detail = fmt.Sprintf("%s answers %d: it does not hold this image%s", host, r.status, says(r))
	case r.status == http.StatusTooManyRequests:
		f.trouble.Cause = policy.Overloaded
		f.load, f.again, f.after = throttled, true, retryAfter(r.header, time.Now())
		f.detail = fmt.Sprintf("%s limits the rate of requests (429); try again %s", host, inAWhile(f.after))
	case r.status >= 500 && r.status != http.StatusNotImplemented && r.status != http.StatusInsufficientStorage: // which do not pass
		f.trouble.Cause = policy.Overloaded
		f.load, f.again, f.after = overloaded, true, retryAfter(r.header, time.Now())
		f.detail = fmt.Sprintf("%s is failing: it answers %s%s; try again when it has recovered", host, statusText(r.status), says(r))
	case r.redirected != "" && (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden):
		f.trouble.Cause = policy.Redirecting
		f.detail = fmt.Sprintf("%s redirects to %s, which answers %d; credentials are not sent along a redirect",
			host, text.OneLine(r.redirected, maxQuote), r.status)
	}
	return f
}

func saysNoRepository(r response) bool {
	first, ok := firstError(r)
	return ok && first.Code == ggcr.NameUnknownErrorCode
}

// firstError returns the first error in a registry's answer, if there is one in the form that the distribution specification
// gives it. Anything else, such as a load balancer's error page, would only take up room.
func firstError(r response) (first ggcr.Diagnostic, ok bool) {
	var body ggcr.Error
	if json.Unmarshal(r.body, &body) != nil || len(body.Errors) == 0 {
		return first, false
	}
	return body.Errors[0], true
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

func inAWhile(d time.Duration) string {
	if d <= 0 {
		return "later"
	}
	return "in " + d.Round(time.Second).String()
}

// says quotes the first error of a registry's answer, "" if there is none.
func says(r response) string {
	first, _ := firstError(r)
	message := cmp.Or(first.Message, string(first.Code))
	if message == "" {
		return ""
	}
	return ", saying " + quote(message)
}

// quote marks words as not the guard's own.
func quote(s string) string { return text.Quote(s, maxQuote) }

// connectionFailure returns what it means that host gave no answer. The error is not quoted
// as a whole: it can hold the query of a URL, or a proxy's password.
func connectionFailure(host string, err error, timeout time.Duration) *failure {
	cause, detail := connection.Describe(host, err, timeout)
	f := &failure{presence: policy.Unreachable, detail: detail, trouble: policy.Trouble{Cause: cause}, load: broken, timedOut: connection.IsTimeout(err)}
	switch {
	case cause == policy.NeverAsked, cause == policy.Redirecting:
		f.load, f.refused = fine, true // which says nothing about the registry's load
	case connection.IsReset(err):
		f.load, f.again = overloaded, true
	}
	return f
}
