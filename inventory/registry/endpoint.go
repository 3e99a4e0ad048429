package registry

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

// An endpoint is one registry, as seen by locations that are secure or by those
// that are not.
type endpoint struct {
	generation *generation
	api        string
	insecure   bool
	transport  *transport
	breaker    breaker
	pace       *pace

	mu        sync.Mutex
	used      time.Time
	session   *session
	underWay  *sharedCall[*session] // GET /v2/ under way
	strict    *transport            // to token servers elsewhere, if the endpoint is insecure
	keychains map[string]*keychain
}

// open returns the registry's session, after a GET /v2/ where it needs one. Many
// callers share one ping, and none of them can spoil it for the others.
func (e *endpoint) open(ctx context.Context) (*session, error) {
	ping, s, err := e.startPing()
	if ping == nil {
		return s, err
	}
	return ping.wait(ctx)
}

// startPing returns the ping under way, or one that it starts if needed, or else the known session or
// error.
func (e *endpoint) startPing() (*sharedCall[*session], *session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay != nil && !e.underWay.finished() {
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
func (e *endpoint) ping(ctx context.Context) (*session, error) {
	s, err := e.pingBy(ctx, "https")
	if err != nil && e.insecure && e.worthClearText(err) {
		s, err = e.pingBy(ctx, "http")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = s
	var f *failure
	if errors.As(err, &f) {
		e.breaker.failed(f, true)
	}
	return s, err
}

// worthClearText avoids a second timeout: with a port in the reference, clear text would
// use the same port, which has already swallowed the packets.
func (e *endpoint) worthClearText(err error) bool {
	var f *failure
	if errors.As(err, &f) && f.refused {
		return false
	}
	return !hasPort(e.api) || !errors.As(err, &f) || !f.timedOut
}

func (e *endpoint) pingBy(ctx context.Context, scheme string) (*session, error) {
	r, err := e.transport.ask(ctx, request{method: http.MethodGet, url: scheme + "://" + e.api + "/v2/", limit: maxOther})
	if err != nil {
		return nil, e.distrusted(connectionFailure(e.api, err, e.transport.timeoutFor(err)), err)
	}
	if r.status != http.StatusOK && r.status != http.StatusUnauthorized {
		return nil, pingFailure(e.api, r)
	}
	return &session{scheme: scheme, challenge: chooseChallenge(r.header), since: time.Now()}, nil
}

// distrusted says what additionalTrustedCA has for a registry whose certificate nodes do not trust: keys are hosts, with the port if there
// is one.
func (e *endpoint) distrusted(f *failure, err error) *failure {
	var unknown x509.UnknownAuthorityError
	if f.trouble.Cause != policy.UnknownAuthority || !errors.As(err, &unknown) || unknown.Cert == nil {
		return f
	}
	name, _, _ := strings.Cut(e.api, ":")
	cas := e.generation.options.HostRootCAs
	issuer := quote(unknown.Cert.Issuer.String())
	switch _, has := cas[e.api]; {
	case has:
		f.detail = fmt.Sprintf("%s has a certificate of an unknown authority: what additionalTrustedCA has for it did not issue it, but %s", e.api, issuer)
	case cas[name] != nil:
		f.detail = fmt.Sprintf("%s has a certificate of an unknown authority (%s): additionalTrustedCA has a CA for %s, without the port", e.api, issuer, name)
	}
	return f
}

// pingFailure returns the failure for an answer on which nodes would give the registry up.
// Even 401 and 404 say nothing about the image: no credentials were sent, and no image was
// asked for.
func pingFailure(host string, r response) *failure {
	f := statusFailure(host, r)
	if f.load == fine {
		f = unreachable("%s answers %s to GET /v2/, where nodes expect 200 or 401; is it a registry?", host, statusText(r.status))
		f.status = r.status
	}
	return f
}

// down notes that a request failed. After too many failures it forgets the session, so that
// a ping finds out when the registry is back.
func (e *endpoint) down(f *failure, grave bool) {
	if !e.breaker.failed(f, grave) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = nil
}

// paced makes a request by do at the registry's pace, and learns from how it went, unless that is no news. It makes none if the
// registry wants to be left alone for longer than most, or is dead. An error is a *failure, or else not the registry's.
func (e *endpoint) paced(ctx context.Context, most time.Duration, do func() (isNews bool, err error)) error {
	if cause := e.breaker.open(); cause != nil {
		return cause
	}
	slot, err := e.pace.acquire(ctx, e.api, most)
	if err != nil {
		return err
	}
	isNews, err := do()
	var f *failure
	failed := errors.As(err, &f)
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
func (e *endpoint) keychain(cred pullsecret.Entry) *keychain {
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
func (e *endpoint) strictTransport() *transport {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.strict == nil {
		o := e.transport.options
		e.strict = newTransport(o, o.RootCAs, false, o.DialTimeout)
	}
	return e.strict
}

// close closes idle connections.
func (e *endpoint) close() {
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
