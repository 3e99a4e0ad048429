package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// minTokenLife is what nodes take for granted, whatever expires_in says
	// (docker_client.go, minimumTokenLifetimeSeconds).
	minTokenLife = 60 * time.Second
	maxTokenLife = time.Hour
	maxToken     = 32 << 10
)

// A token is what a token server grants.
type token struct {
	value string
	life  time.Duration
	// withheld is set if the credential was not sent for it: what it opens is less
	// than what nodes get.
	withheld *failure
}

// A tokenRequest asks the token server of a registry for access to repositories.
type tokenRequest struct {
	endpoint   *endpoint
	session    *session
	credential credential
	scopes     []string
}

// fetch asks for the token, again if that may help.
func (q *tokenRequest) fetch(ctx context.Context) (token, error) {
	realm, err := q.realm()
	if err != nil {
		return token{}, err
	}
	for attempt := 0; ; attempt++ {
		t, err := q.once(ctx, realm)
		var f *failure
		if err == nil || !errors.As(err, &f) || !f.again || attempt == maxAgain {
			return t, err
		}
		if rest := pause(attempt, f); rest > patience || sleep(ctx, rest) != nil {
			return t, err
		}
	}
}

// realm returns the URL of the token server, which the registry has chosen.
func (q *tokenRequest) realm() (*url.URL, error) {
	host := q.endpoint.api
	realm, err := url.Parse(q.session.challenge.realm)
	if err != nil || realm.Host == "" || realm.User != nil || realm.Scheme != "https" && realm.Scheme != "http" {
		return nil, unreachable("%s names no usable token server (%s); check its authentication settings",
			host, quote(q.session.challenge.realm))
	}
	if realm.Scheme == "http" && !q.endpoint.insecure {
		return nil, unreachable("%s names a token server that does not use TLS (%s); nothing is sent there",
			host, quote(realm.Host))
	}
	return realm, nil
}

func (q *tokenRequest) once(ctx context.Context, realm *url.URL) (token, error) {
	way, cred := q.route(realm)
	r, err := way.ask(ctx, q.request(realm, cred))
	if err != nil {
		return token{}, connectionFailure(q.server(realm), err, way.options.patience(err))
	}
	if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden {
		return token{}, q.denied(realm, r, cred)
	}
	if r.status != http.StatusOK {
		f := statusFailure(q.server(realm), r)
		if f.status == http.StatusNotFound || f.status == http.StatusGone {
			f = unreachable("%s answers %s", q.server(realm), statusText(r.status))
		}
		return token{}, f
	}
	t, err := q.parse(realm, r)
	if cred != q.credential {
		t.withheld = q.withheld(realm, r)
	}
	return t, err
}

func (q *tokenRequest) denied(realm *url.URL, r response, sent credential) *failure {
	if sent != q.credential {
		return q.withheld(realm, r)
	}
	return denied(q.server(realm), r, q.credential)
}

// withheld says that the credential was not sent. Nodes do send it, so that what
// they get is not known.
func (q *tokenRequest) withheld(realm *url.URL, r response) *failure {
	f := unreachable("%s names a token server that does not use TLS (%s); credentials are not sent there",
		q.endpoint.api, quote(realm.Host))
	f.status = r.status
	return f
}

// server names the token server for people.
func (q *tokenRequest) server(realm *url.URL) string {
	if realm.Host == q.endpoint.api {
		return q.endpoint.api
	}
	return fmt.Sprintf("%s: its token server %s", q.endpoint.api, text.OneLine(realm.Host, maxQuote))
}

// route returns the way to the token server, and what may be sent on it. Nodes
// send the credential wherever the registry wants. Here it travels in clear text
// only to the very host that its entry names, where the location is insecure; and
// to another host only where that proves its name.
func (q *tokenRequest) route(realm *url.URL) (*way, credential) {
	e := q.endpoint
	switch {
	case realm.Host == e.api, q.credential.anonymous(), !e.insecure:
		return e.way, q.credential
	case realm.Scheme == "http":
		return e.way, credential{entry: q.credential.entry}
	default:
		return e.strictWay(), q.credential
	}
}

func (q *tokenRequest) request(realm *url.URL, cred credential) request {
	if cred.identityToken != "" {
		form := q.parameters(realm.Query())
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", cred.identityToken)
		form.Set("client_id", q.endpoint.way.options.UserAgent)
		return request{method: http.MethodPost, url: withQuery(realm, nil), form: form, limit: maxOther}
	}
	query := q.parameters(realm.Query())
	if cred.username != "" {
		query.Add("account", cred.username)
	}
	return request{method: http.MethodGet, url: withQuery(realm, query), authorization: cred.basic(), limit: maxOther}
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

func (q *tokenRequest) parse(realm *url.URL, r response) (token, error) {
	var body struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	useless := unreachable("%s answers with something that is no token; check the registry's authentication settings", q.server(realm))
	if r.cut || json.Unmarshal(r.body, &body) != nil {
		return token{}, useless
	}
	value := body.Token
	if value == "" {
		value = body.AccessToken
	}
	if value == "" || len(value) > maxToken || strings.IndexFunc(value, notVisible) >= 0 {
		return token{}, useless
	}
	// Counted from now: issued_at is by a clock that may be wrong.
	life := time.Duration(min(max(body.ExpiresIn, 0), maxTokenLife.Seconds())) * time.Second
	return token{value: value, life: max(life, minTokenLife)}, nil
}

func notVisible(r rune) bool { return r <= ' ' || r > '~' }
