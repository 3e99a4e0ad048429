package wire

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A session holds what a registry said in its answer to GET /v2/.
type session struct {
	scheme    string
	challenge challenge
	since     time.Time
}

// sessionLife bounds how long the challenges of a registry are relied on.
const sessionLife = 5 * time.Minute

// An Endpoint is one registry, as seen by locations that are secure or by those
// that are not.
type Endpoint struct {
	generation *generation
	host       string // as references name it
	api        string
	insecure   bool
	transport  *transport
	breaker    breaker
	pace       *pace

	mu        sync.Mutex
	used      time.Time
	session   *session
	underWay  *SharedCall[*session] // GET /v2/ under way
	strict    *transport            // to token servers elsewhere, if the endpoint is insecure
	keychains map[string]*keychain
}

// API returns the host that speaks for the registry ("registry-1.docker.io").
func (e *Endpoint) API() string { return e.api }

// Ping finds out whether the registry answers, unless it did a moment ago.
func (e *Endpoint) Ping(ctx context.Context) error {
	_, err := e.open(ctx)
	return err
}

// open returns the registry's session, after a GET /v2/ where it needs one. Many
// callers share one ping, and none of them can spoil it for the others.
func (e *Endpoint) open(ctx context.Context) (*session, error) {
	ping, s, err := e.startPing()
	if ping == nil {
		return s, err
	}
	return ping.Wait(ctx)
}

// startPing returns the ping under way, or one that it starts if needed, or else the known session or
// error.
func (e *Endpoint) startPing() (*SharedCall[*session], *session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay != nil && !e.underWay.Finished() {
		return e.underWay, nil, nil
	}
	if cause := e.breaker.open(); cause != nil {
		return nil, nil, cause
	}
	if e.session != nil && time.Since(e.session.since) < sessionLife {
		return nil, e.session, nil
	}
	e.underWay = startCall(e.generation, e.ping)
	return e.underWay, nil, nil
}

// ping finds out whether the registry answers, by TLS or, where the location is
// insecure and TLS fails, in clear text (docker_client.go, detectPropertiesHelper).
func (e *Endpoint) ping(ctx context.Context) (*session, error) {
	s, err := e.pingBy(ctx, "https")
	if err != nil && e.insecure && e.worthClearText(err) {
		s, err = e.pingBy(ctx, "http")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = s
	if f, ok := errors.AsType[*Failure](err); ok {
		e.breaker.failed(f, true)
	}
	return s, err
}

// worthClearText avoids a second timeout: with a port in the reference, clear text would
// use the same port, which has already swallowed the packets.
func (e *Endpoint) worthClearText(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	return !ok || !f.refused && (!hasPort(e.api) || !f.timedOut)
}

func (e *Endpoint) pingBy(ctx context.Context, scheme string) (*session, error) {
	r, err := e.transport.ask(ctx, Request{method: http.MethodGet, url: scheme + "://" + e.api + "/v2/", Limit: MaxOther})
	if err != nil {
		return nil, e.distrusted(e.NoAnswer(err, e.transport.timeoutFor(err)), err)
	}
	if r.Status != http.StatusOK && r.Status != http.StatusUnauthorized {
		return nil, pingFailure(e.api, r)
	}
	return &session{scheme: scheme, challenge: chooseChallenge(r.Header), since: time.Now()}, nil
}

// distrusted says what additionalTrustedCA has for a registry whose certificate nodes do not trust: keys are hosts, with the port if there
// is one.
func (e *Endpoint) distrusted(f *Failure, err error) *Failure {
	var unknown x509.UnknownAuthorityError
	if f.trouble.Cause != policy.UnknownAuthority || !errors.As(err, &unknown) || unknown.Cert == nil {
		return f
	}
	name, _, _ := strings.Cut(e.api, ":")
	cas := e.generation.options.HostRootCAs
	issuer := Quote(unknown.Cert.Issuer.String())
	switch _, has := cas[e.api]; {
	case has:
		f.Detail = fmt.Sprintf("%s has a certificate of an unknown authority: what additionalTrustedCA has for it did not issue it, but %s", e.api, issuer)
	case cas[name] != nil:
		f.Detail = fmt.Sprintf("%s has a certificate of an unknown authority (%s): additionalTrustedCA has a CA for %s, without the port", e.api, issuer, name)
	}
	return f
}

// pingFailure returns the failure for an answer on which nodes would give the registry up.
// Even 401 and 404 say nothing about the image: no credentials were sent, and no image was
// asked for.
func pingFailure(host string, r Response) *Failure {
	f := statusFailure(host, r)
	if f.load == fine {
		f = Unreachable("%s answers %s to GET /v2/, where nodes expect 200 or 401; is it a registry?", host, r.StatusText())
		f.Status = r.Status
	}
	return f
}

// NoAnswer returns what it means that err came instead of an answer, within a time limit.
func (e *Endpoint) NoAnswer(err error, limit time.Duration) *Failure {
	return connectionFailure(e.api, err, limit)
}

// RoundTrip sends a request as it is, if its address may be asked, and follows no redirect. It implements http.RoundTripper.
func (e *Endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	return e.transport.RoundTrip(req)
}

// maxThrottled is how often Repeat asks again where the registry limits the rate of requests, each time when it says, or later.
const maxThrottled = 10

// Repeat calls do, and once more after each failure that may pass.
func (e *Endpoint) Repeat(ctx context.Context, do func() error) error {
	return again(ctx, func(f *Failure, attempt int) bool {
		if f.load == throttled {
			return attempt < maxThrottled
		}
		return f.again && attempt < maxAgain && e.breaker.open() == nil
	}, do)
}

// down notes that a request failed. After too many failures it forgets the session, so that
// a ping finds out when the registry is back.
func (e *Endpoint) down(f *Failure, grave bool) {
	if !e.breaker.failed(f, grave) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = nil
}

// Paced makes a request by do at the registry's pace, whenever the registry may be asked again, and learns from how it went, unless that is
// no news. An error is a *Failure, or else not the registry's.
func (e *Endpoint) Paced(ctx context.Context, do func() (isNews bool, err error)) error {
	return e.paced(ctx, maxRetryAfter, do)
}

// paced makes a request by do at the registry's pace, and learns from how it went, unless that is no news. It makes none if the
// registry wants to be left alone for longer than most, or is dead. An error is a *Failure, or else not the registry's.
func (e *Endpoint) paced(ctx context.Context, most time.Duration, do func() (isNews bool, err error)) error {
	if cause := e.breaker.open(); cause != nil {
		return cause
	}
	slot, err := e.pace.acquire(ctx, e.api, most)
	if err != nil {
		return err
	}
	isNews, err := do()
	f, failed := errors.AsType[*Failure](err)
	switch {
	case !isNews, err != nil && !failed:
		e.pace.leave()
	case failed:
		e.pace.release(slot, f.load, f.after)
		if f.load > throttled || f.refused {
			e.down(f, false)
		}
	default:
		e.pace.release(slot, fine, 0)
	}
	if err == nil {
		e.breaker.answered()
	}
	return err
}

// keychain returns the keychain of cred.
func (e *Endpoint) keychain(cred pullsecret.Entry) *keychain {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.keychains[cred.Key]
	if k == nil {
		k = newKeychain(e, cred)
		e.keychains[cred.Key] = k
	}
	return k
}

// strictTransport returns a transport that trusts only servers that prove their names,
// although the registry itself need not.
func (e *Endpoint) strictTransport() *transport {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.strict == nil {
		o := e.transport.options
		e.strict = newTransport(o, o.RootCAs, false, o.DialTimeout)
	}
	return e.strict
}

// close closes idle connections.
func (e *Endpoint) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.transport.close()
	if e.strict != nil {
		e.strict.close()
	}
}

func hasPort(host string) bool {
	_, _, err := net.SplitHostPort(host)
	return err == nil
}
