package registry

import (
	"cmp"
	"context"
	"crypto/fips140"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
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
func quote(s string) string { return strconv.Quote(text.OneLine(s, maxQuote)) }

// connectionFailure returns what it means that host gave no answer. The error is not quoted
// as a whole: it can hold the query of a URL, or a proxy's password.
func connectionFailure(host string, err error, timeout time.Duration) *failure {
	cause, detail := describeConnection(host, err, timeout)
	f := &failure{presence: policy.Unreachable, detail: detail, trouble: policy.Trouble{Cause: cause}, load: broken, timedOut: isTimeout(err)}
	switch {
	case cause == policy.NeverAsked, cause == policy.Redirecting:
		f.load, f.refused = fine, true // which says nothing about the registry's load
	case isReset(err):
		f.load, f.again = overloaded, true
	}
	return f
}

func describeConnection(host string, err error, timeout time.Duration) (policy.Cause, string) {
	var refusal *addressError
	var redirect *redirectError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return policy.BehindProxy, fmt.Sprintf("the proxy on the way to %s cannot be used; check the cluster's proxy settings", host)
	case errors.As(err, &refusal):
		return policy.NeverAsked, fmt.Sprintf("%s is not asked: %v", host, refusal)
	case errors.As(err, &redirect):
		return policy.Redirecting, fmt.Sprintf("%s %v", host, redirect)
	case errors.As(err, &dns):
		return policy.Nameless, describeDNS(host, dns)
	}
	if cause, described := describeTLS(host, err); described != "" {
		return cause, described
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return policy.Silent, fmt.Sprintf("%s refuses connections; check that the registry runs and listens there", host)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return policy.Silent, fmt.Sprintf("there is no route to %s; check the network and its firewalls", host)
	case isTimeout(err):
		return policy.Silent, fmt.Sprintf("%s did not answer within %s; check the registry, the network and its firewalls", host, timeout)
	case isReset(err):
		return policy.Silent, fmt.Sprintf("%s closed the connection; check the registry and what is in front of it, and try again", host)
	default:
		return policy.Silent, fmt.Sprintf("%s gives no usable answer: %s; check the registry", host, quote(innermost(err).Error()))
	}
}

func describeDNS(host string, err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return fmt.Sprintf("%s: there is no host named %s; check the spelling and the DNS", host, quote(err.Name))
	case err.IsTimeout:
		return fmt.Sprintf("%s: the DNS did not answer in time for %s; check the DNS", host, quote(err.Name))
	default:
		return fmt.Sprintf("%s: the DNS could not resolve %s; check the DNS", host, quote(err.Name))
	}
}

// notApproved is in crypto/tls' error for a chain with a key that FIPS 140-3 does not approve, which has no
// type of its own (fipsAllowedChains).
const notApproved = "no FIPS compatible certificate chains"

// describeTLS returns "" if err does not come from the TLS handshake.
func describeTLS(host string, err error) (policy.Cause, string) {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		return policy.UnknownAuthority, fmt.Sprintf("%s has a certificate of an unknown authority; add its CA to additionalTrustedCA of image.config", host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return policy.BadCertificate, fmt.Sprintf("%s has a certificate that is expired or not yet valid; renew it", host)
	case errors.As(err, &name):
		return policy.BadCertificate, fmt.Sprintf("%s has a certificate for another name; give it one that names the host", host)
	case fips140.Enabled() && strings.Contains(err.Error(), notApproved):
		return policy.BadCertificate, fmt.Sprintf("%s has a certificate that FIPS 140-3 does not approve, for its key or one above it; give it RSA of 2048 bits, ECDSA or Ed25519", host)
	case errors.As(err, &verification):
		return policy.BadCertificate, fmt.Sprintf("%s has a certificate that cannot be verified; replace it", host)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return policy.PlainHTTP, fmt.Sprintf("%s does not speak TLS there; if that is meant, list it in insecureRegistries of image.config", host)
	case fips140.Enabled() && (errors.As(err, &alert) || strings.Contains(err.Error(), "tls: ")):
		return policy.BadHandshake, fmt.Sprintf("%s does not negotiate TLS 1.2 or later with what FIPS 140-3 approves (%s); check its ciphers, groups and key", host, quote(innermost(err).Error()))
	case errors.As(err, &alert), strings.Contains(err.Error(), "tls: "):
		return policy.BadHandshake, fmt.Sprintf("%s does not negotiate TLS 1.2 or later (%s); check its TLS settings", host, quote(innermost(err).Error()))
	}
	return policy.Silent, ""
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isReset recognises a connection that was cut while it was in use.
func isReset(err error) bool {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	message := err.Error() // net/http's copy of HTTP/2 does not export its errors
	return strings.Contains(message, "http2: ") || strings.Contains(message, "stream error") ||
		strings.Contains(message, "server closed idle connection") || strings.Contains(message, "GOAWAY")
}

// innermost strips the layers that repeat the URL and the addresses.
func innermost(err error) error {
	for {
		var outer *url.Error
		if !errors.As(err, &outer) {
			break
		}
		err = outer.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// A redirectError is the refusal to follow a redirect.
type redirectError struct{ reason string }

func (e *redirectError) Error() string { return e.reason }
