package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A keychain holds the tokens of one registry that one credential has been granted.
// They are fetched one at a time, because token servers are guarded more closely
// than manifests (Quay's published limits allow a burst of 2), and so that many
// repositories can share one.
type keychain struct {
	endpoint   *Endpoint
	credential pullsecret.Entry
	fetching   chan struct{} // holds an entry for each token that is being fetched

	mu     sync.Mutex
	grants map[string]*grant // by scope
	full   int               // of how many grants at least some are dropped
	// share is how many scopes are requested in one token: 1 for servers that honour only
	// the first.
	share int
}

const (
	// maxShare is the number of scopes that distribution's token servers and Quay's were
	// seen to grant in one token.
	maxShare = 50
	// maxScopes bounds the length of their names together, so that the URL stays
	// below the 8 kB that proxies let through.
	maxScopes = 4000
	// maxGrants bounds how many tokens for one scope each are kept, of 32 KiB at most: any tenant names repositories.
	maxGrants = 1024
	// tokenRetryAfter is how long after a refusal the token is requested again.
	tokenRetryAfter = 2 * time.Second
)

// A grant is a token that was requested, with the answer once there is one.
type grant struct {
	scopes []string
	*SharedCall[token]
}

func newKeychain(e *Endpoint, cred pullsecret.Entry) *keychain {
	return &keychain{
		endpoint:   e,
		credential: cred,
		fetching:   make(chan struct{}, limits.TokensAtOnce),
		grants:     map[string]*grant{},
		full:       maxGrants,
		share:      maxShare,
	}
}

// usable reports whether g is under way or still valid.
func (g *grant) usable() bool { return g != nil && (!g.Finished() || time.Now().Before(g.value.until)) }

// shared reports whether g is for several repositories.
func (g *grant) shared() bool { return len(g.scopes) > 1 }

// token returns a token for scope, and whether it was fetched for this call alone,
// so that it says all that can be said about the credential's rights.
func (k *keychain) token(ctx context.Context, s *session, scope string) (g *grant, fresh bool, err error) {
	g, fresh = k.grant(s, scope, false, scope)
	if _, err = g.Wait(ctx); err != nil && g.shared() && ctx.Err() == nil {
		// A server may refuse the whole request because of one scope.
		k.forget(g, scope)
		g, fresh = k.grant(s, scope, false, scope)
		_, err = g.Wait(ctx)
	}
	return g, fresh, err
}

// tokenAlone returns a new token for scope and, if it is not "", for extra.
func (k *keychain) tokenAlone(ctx context.Context, s *session, scope, extra string) (*grant, error) {
	scopes := []string{scope}
	if extra != "" && extra != scope {
		scopes = append(scopes, extra)
	}
	g, _ := k.grant(s, scope, true, scopes...)
	_, err := g.Wait(ctx)
	return g, err
}

// tokenFor returns a token for scopes together, a new one if anew is set.
func (k *keychain) tokenFor(ctx context.Context, s *session, anew bool, scopes ...string) (*grant, error) {
	g, _ := k.grant(s, strings.Join(scopes, " "), anew, scopes...)
	_, err := g.Wait(ctx)
	return g, err
}

// grant returns the grant that is known by a key, or a new one for scopes if anew is set or there is none that is usable.
func (k *keychain) grant(s *session, key string, anew bool, scopes ...string) (g *grant, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if g = k.grants[key]; anew || !g.usable() {
		g, fresh = k.start(s, nil, scopes), true
		k.keep(key, g)
	}
	return g, fresh
}

// keep remembers a grant, and once in a while forgets those that have ended, or are for a single scope and can be fetched again.
func (k *keychain) keep(key string, g *grant) {
	if len(k.grants) >= k.full {
		maps.DeleteFunc(k.grants, func(_ string, g *grant) bool { return !g.usable() || g.Finished() && !g.shared() })
		k.full = len(k.grants) + maxGrants
	}
	k.grants[key] = g
}

// forget makes the next call for scope fetch a token for that scope alone.
func (k *keychain) forget(g *grant, scope string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grants[scope] == g {
		delete(k.grants, scope)
	}
}

// dontShare notes that the server does not honour many scopes in one token, and forgets
// those it pretended to grant.
func (k *keychain) dontShare() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.share = 1
	maps.DeleteFunc(k.grants, func(_ string, g *grant) bool { return g.shared() })
}

// prepare begins to fetch tokens for scopes, ahead of the probes that need them. It
// returns false if the registry does not answer.
func (k *keychain) prepare(ctx context.Context, scopes []string) bool {
	s, err := k.endpoint.open(ctx)
	if err == nil && s.wantsToken() {
		k.fetchAhead(s, scopes)
	}
	return err == nil
}

// fetchAhead begins to fetch tokens for those of scopes that have none, in this order, many
// scopes each. Callers that need one of them wait for it from now on.
func (k *keychain) fetchAhead(s *session, scopes []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.share == 1 {
		return // probes fetch their own
	}
	seen := map[string]bool{}
	scopes = slices.DeleteFunc(scopes, func(scope string) bool {
		known := seen[scope] || k.grants[scope].usable()
		seen[scope] = true
		return known
	})
	for before := (*grant)(nil); len(scopes) > 0; {
		n := 1
		for length := len(scopes[0]); n < min(len(scopes), k.share) && length+len(scopes[n]) <= maxScopes; n++ {
			length += len(scopes[n])
		}
		before = k.start(s, before, scopes[:n:n])
		for _, scope := range before.scopes {
			k.keep(scope, before)
		}
		scopes = scopes[n:]
	}
}

// start begins to fetch a token after the one before, if that is not nil.
func (k *keychain) start(s *session, before *grant, scopes []string) *grant {
	return &grant{scopes, startCall(k.endpoint.generation, func(ctx context.Context) (token, error) {
		if before != nil {
			<-before.done
		}
		return k.fetch(ctx, s, scopes)
	})}
}

// fetch fetches a token once fewer than limits.TokensAtOnce are being fetched.
func (k *keychain) fetch(ctx context.Context, s *session, scopes []string) (token, error) {
	select {
	case k.fetching <- struct{}{}:
		defer func() { <-k.fetching }()
	case <-ctx.Done():
		return token{}, ctx.Err()
	}
	if cause := k.endpoint.breaker.open(); cause != nil {
		return token{}, cause
	}
	t, err := (&tokenRequest{k.endpoint, s, k.credential, scopes}).fetch(ctx)
	if err != nil {
		k.refused(len(scopes) > 1, err)
		t.until = time.Now().Add(tokenRetryAfter)
	}
	return t, err
}

// refused adapts to a token that was not granted. Without its token server a registry is as
// good as dead, unless the server only refuses so many scopes at once.
func (k *keychain) refused(shared bool, err error) {
	var f *Failure
	if !errors.As(err, &f) {
		return
	}
	answered := f.Status >= 400 && f.Status < 500 && f.load == fine
	switch {
	case shared && answered:
		k.dontShare()
	case f.Presence == policy.Unreachable && !answered:
		k.endpoint.down(f, true)
	}
}

const (
	// minTokenLife is the life that nodes assume at least, whatever expires_in says
	// (docker_client.go, minimumTokenLifetimeSeconds).
	minTokenLife = 60 * time.Second
	maxTokenLife = time.Hour
	maxToken     = 32 << 10
)

// A token is an answer of a token server.
type token struct {
	text  string
	until time.Time // when another one is to be fetched
	// withheld is set if the token was requested without the credential: it opens less than
	// what nodes can open.
	withheld *Failure
}

// A tokenRequest asks the token server of a registry for access to repositories.
type tokenRequest struct {
	endpoint   *Endpoint
	session    *session
	credential pullsecret.Entry
	scopes     []string
}

// fetch asks for the token, and retries if that may help.
func (q *tokenRequest) fetch(ctx context.Context) (t token, err error) {
	realm, err := q.realm()
	if err != nil {
		return token{}, err
	}
	err = again(ctx, (*Failure).passes, func() (err error) {
		t, err = q.once(ctx, realm)
		return err
	})
	return t, err
}

// realm returns the URL of the token server, which the registry has chosen.
func (q *tokenRequest) realm() (*url.URL, error) {
	host := q.endpoint.api
	realm, err := url.Parse(q.session.challenge.realm)
	if err != nil || realm.Host == "" || realm.User != nil || realm.Scheme != "https" && realm.Scheme != "http" {
		return nil, Unreachable("%s names no usable token server (%s); check its authentication settings",
			host, Quote(q.session.challenge.realm))
	}
	if realm.Scheme == "http" && !q.endpoint.insecure {
		return nil, Unreachable("%s names a token server that does not use TLS (%s); nothing is sent there",
			host, Quote(realm.Host))
	}
	return realm, nil
}

func (q *tokenRequest) once(ctx context.Context, realm *url.URL) (token, error) {
	transport, cred := q.route(realm)
	r, err := transport.ask(ctx, q.request(realm, cred))
	if err != nil {
		return token{}, q.ofServer(connectionFailure(q.server(realm), err, transport.timeoutFor(err)), realm)
	}
	var withheld *Failure
	if cred != q.credential {
		withheld = q.withheld(realm, r)
	}
	switch r.Status {
	case http.StatusOK:
		t, err := q.parse(realm, r)
		t.withheld = withheld
		return t, err
	case http.StatusUnauthorized, http.StatusForbidden:
		if withheld == nil {
			withheld = denied(q.server(realm), r, q.credential)
		}
		return token{}, withheld
	case http.StatusNotFound, http.StatusGone:
		return token{}, q.ofServer(Unreachable("%s answers %s", q.server(realm), r.StatusText()), realm)
	default:
		return token{}, q.ofServer(statusFailure(q.server(realm), r), realm)
	}
}

// withheld returns the failure that the credential was not sent. Nodes do send it, so it is
// not known what they get.
func (q *tokenRequest) withheld(realm *url.URL, r Response) *Failure {
	f := Unreachable("%s names a token server that does not use TLS (%s); credentials are not sent there",
		q.endpoint.api, Quote(realm.Host))
	f.Status = r.Status
	return f
}

// ofServer returns f, which is about the token server. Nodes trust it by the CAs of the registry.
func (q *tokenRequest) ofServer(f *Failure, realm *url.URL) *Failure {
	if realm.Host != q.endpoint.api && f.trouble.Cause != policy.UnknownAuthority && f.trouble.Cause != policy.Silent {
		f.trouble.Server = text.OneLine(realm.Host, MaxQuote)
	}
	return f
}

// server names the token server for messages.
func (q *tokenRequest) server(realm *url.URL) string {
	if realm.Host == q.endpoint.api {
		return q.endpoint.api
	}
	return fmt.Sprintf("%s: its token server %s", q.endpoint.api, text.OneLine(realm.Host, MaxQuote))
}

// route returns the transport to the token server, and the credential that may be sent over
// it. Nodes send the credential wherever the registry wants. Here it goes in clear text
// only to the very host that its entry names, if the location is insecure, and to another
// host only if that proves its name by TLS.
func (q *tokenRequest) route(realm *url.URL) (*transport, pullsecret.Entry) {
	e := q.endpoint
	switch {
	case realm.Host == e.api, q.credential.Anonymous(), !e.insecure:
		return e.transport, q.credential
	case realm.Scheme == "http":
		return e.transport, pullsecret.Entry{Key: q.credential.Key}
	default:
		return e.strictTransport(), q.credential
	}
}

func (q *tokenRequest) request(realm *url.URL, cred pullsecret.Entry) Request {
	if cred.IdentityToken != "" {
		form := q.parameters(realm.Query())
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", cred.IdentityToken)
		form.Set("client_id", q.endpoint.transport.options.UserAgent)
		return Request{method: http.MethodPost, url: withQuery(realm, nil), form: form, Limit: MaxOther}
	}
	query := q.parameters(realm.Query())
	if cred.Username != "" {
		query.Add("account", cred.Username)
	}
	return Request{method: http.MethodGet, url: withQuery(realm, query), authorization: cred.Basic(), Limit: MaxOther}
}

func (q *tokenRequest) parameters(values url.Values) url.Values {
	if service := q.session.challenge.service; service != "" {
		values.Add("service", service)
	}
	for _, scope := range q.scopes {
		values.Add("scope", scope)
	}
	return values
}

func withQuery(u *url.URL, query url.Values) string {
	with := *u
	with.RawQuery, with.Fragment = query.Encode(), ""
	return with.String()
}

func (q *tokenRequest) parse(realm *url.URL, r Response) (token, error) {
	var body struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	useless := Unreachable("%s answers with something that is not a token; check the registry's authentication settings", q.server(realm))
	if r.Cut || json.Unmarshal(r.Body, &body) != nil {
		return token{}, useless
	}
	value := cmp.Or(body.Token, body.AccessToken)
	notVisible := func(r rune) bool { return r <= ' ' || r > '~' }
	if value == "" || len(value) > maxToken || strings.ContainsFunc(value, notVisible) {
		return token{}, useless
	}
	// Counted from now, as the clock behind issued_at may be wrong.
	life := max(minTokenLife, time.Duration(min(max(body.ExpiresIn, 0), maxTokenLife.Seconds()))*time.Second)
	return token{text: value, until: time.Now().Add(life - life/10)}, nil
}
