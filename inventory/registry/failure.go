package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const (
	maxDetail = 200 // runes of a Fact's Detail
	maxQuote  = 80  // runes of a registry's own words within it
)

// A failure is why a location does not serve an image. It becomes a Fact; it is an
// error only on the way there.
type failure struct {
	presence policy.Presence
	// detail names the registry, what it did and what to do about it.
	detail string
	// load is set if the registry, or the way to it, is overloaded or broken, so
	// that asking more would make it worse.
	load load
	// again is set if the same question may be answered in a moment.
	again bool
	// after is when the registry wants to be asked again, 0 if it does not say.
	after time.Duration
	// status is that of the answer, 0 if there was none.
	status int
	// timedOut is set if there was no answer in time, refused if the guard would
	// not ask.
	timedOut, refused bool
}

func (f *failure) Error() string { return f.detail }

func (f *failure) fact(now time.Time) policy.Fact {
	return policy.Fact{Presence: f.presence, Detail: text.OneLine(f.detail, maxDetail), Time: now}
}

func unreachable(format string, args ...any) *failure {
	return &failure{presence: policy.Unreachable, detail: fmt.Sprintf(format, args...)}
}

func mismatch(format string, args ...any) *failure {
	return &failure{presence: policy.Mismatch, detail: fmt.Sprintf(format, args...)}
}

func incomplete(format string, args ...any) *failure {
	return &failure{presence: policy.Incomplete, detail: fmt.Sprintf(format, args...)}
}

// statusFailure says what an answer other than 200 means.
func statusFailure(host string, r response) *failure {
	f := unreachable("%s answers %s%s", host, statusText(r.status), says(r))
	f.status = r.status
	switch {
	case r.status == http.StatusNotFound, r.status == http.StatusGone:
		f.presence = policy.Absent
		f.detail = fmt.Sprintf("%s answers %d: it does not hold this image%s", host, r.status, says(r))
	case r.status == http.StatusTooManyRequests:
		f.load, f.again, f.after = throttled, true, retryAfter(r.header, time.Now())
		f.detail = fmt.Sprintf("%s limits the rate of requests (429); try again %s", host, inAWhile(f.after))
	case r.status >= 500 && r.status != http.StatusNotImplemented:
		f.load, f.again, f.after = overloaded, true, retryAfter(r.header, time.Now())
		f.detail = fmt.Sprintf("%s is not well: it answers %s%s; try again when it is", host, statusText(r.status), says(r))
	case r.redirected != "" && (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden):
		f.detail = fmt.Sprintf("%s redirects to %s, which answers %d; credentials are not sent along a redirect",
			host, text.OneLine(r.redirected, maxQuote), r.status)
	}
	return f
}

// denied says that the registry wants other credentials than cred, which is the
// zero value if there are none for it.
func denied(host string, r response, cred credential) *failure {
	if r.redirected != "" {
		return statusFailure(host, r)
	}
	f := &failure{presence: policy.Denied, status: r.status}
	switch {
	case cred.helper:
		f.presence = policy.Unreachable // what the nodes have is not known
		f.detail = fmt.Sprintf("%s answers %d; nodes ask a credential helper for it, which only they can run", host, r.status)
	case cred.anonymous() && cred.entry != "":
		f.detail = fmt.Sprintf("%s answers %d; the entry %s of the global pull secret is empty%s",
			host, r.status, quote(cred.entry), says(r))
	case cred.anonymous():
		f.detail = fmt.Sprintf("%s answers %d and the global pull secret has no entry for it; add one%s", host, r.status, says(r))
	default:
		f.detail = fmt.Sprintf("%s answers %d to the entry %s of the global pull secret; renew it or widen its rights%s",
			host, r.status, quote(cred.entry), says(r))
	}
	return f
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

// says quotes the first error of a registry's answer, "" if there is none in the
// form that the distribution specification gives it. Anything else, such as the
// page of a load balancer, would only take up room.
func says(r response) string {
	var body transport.Error
	if json.Unmarshal(r.body, &body) != nil || len(body.Errors) == 0 {
		return ""
	}
	message := cmp.Or(body.Errors[0].Message, string(body.Errors[0].Code))
	if message == "" {
		return ""
	}
	return ", saying " + quote(message)
}

// quote marks words as somebody else's.
func quote(s string) string { return strconv.Quote(text.OneLine(s, maxQuote)) }
