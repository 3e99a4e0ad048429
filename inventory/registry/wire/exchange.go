package wire

import (
	"context"
	"errors"
	"net/http"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// An Exchange asks a registry about one repository, with what that takes: the registry's answer to GET /v2/, the
// credential and, once there is one, a token. A copy of it may be used beside it.
type Exchange struct {
	*Endpoint
	repository Repository
	session    *session
	credential pullsecret.Entry
	// grant is the token in use, nil if there is none; final is set if there is
	// nothing better to be had.
	grant *grant
	final bool
}

// Exchange returns what asks about a repository, which need not be that of any location, without a token as yet. It fails if the
// registry does not answer or the entry of the pull secret is broken.
func (e *Endpoint) Exchange(ctx context.Context, r Repository) (*Exchange, error) {
	cred, _ := e.generation.credentials.Lookup(r.Name)
	if cred.Broken != "" {
		return nil, brokenEntry(r.Host(), cred)
	}
	s, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	return &Exchange{Endpoint: e, repository: r, session: s, credential: cred}, nil
}

// brokenEntry returns the failure of nodes at the entry, before any request.
func brokenEntry(host string, cred pullsecret.Entry) *Failure {
	f := Unreachable("the entry %s of the global pull secret, which is for %s, %s; repair it", Quote(cred.Key), host, cred.Broken)
	f.Presence, f.trouble = policy.Denied, policy.Trouble{Cause: policy.BrokenEntry, Entry: cred.Key}
	return f
}

func (x *Exchange) keychain() *keychain { return x.Endpoint.keychain(x.credential) }

// Anonymous reports whether there are no credentials for the repository.
func (x *Exchange) Anonymous() bool { return x.credential.Anonymous() }

// authorize gets a token for reading where the registry wants one.
func (x *Exchange) authorize(ctx context.Context) (err error) {
	if x.final = !x.session.wantsToken(); !x.final {
		x.grant, x.final, err = x.keychain().token(ctx, x.session, x.repository.pulling())
	}
	return err
}

// Authorize makes req, which has the path, a request to the registry that opens scopes, by a new token if anew is set.
func (x *Exchange) Authorize(ctx context.Context, req *http.Request, anew bool, scopes ...string) (err error) {
	var g *grant
	if x.session.wantsToken() {
		if g, err = x.keychain().tokenFor(ctx, x.session, anew, scopes...); err != nil {
			return err
		}
	}
	req.URL.Scheme, req.URL.Host, req.Host = x.session.scheme, x.api, ""
	req.Header.Set("User-Agent", x.transport.options.UserAgent)
	if authorization := x.keychain().authorization(x.session, g); authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return nil
}

// Get asks for q as a node does: with a token for this repository alone, and for what the registry reports as missing,
// if the one in use was not good enough. The answer to Head, if that came before, is not asked for again if it was 401.
func (x *Exchange) Get(ctx context.Context, q Request, head Response) (r Response, err error) {
	if r = head; r.Status != http.StatusUnauthorized {
		if r, err = x.GetOnce(ctx, q); err != nil || r.Status != http.StatusUnauthorized {
			return r, err
		}
	}
	before, missing := x.grant, wantedScope(r.Header)
	if before != nil && (!x.final || missing != "") {
		x.final = true
		if x.grant, err = x.keychain().tokenAlone(ctx, x.session, x.repository.pulling(), missing); err != nil {
			return r, err
		}
	}
	r, err = x.GetOnce(ctx, q)
	if err == nil && r.Status != http.StatusUnauthorized && before != nil && before.shared() {
		x.keychain().dontShare()
	}
	return r, err
}

// GetOnce asks for q with the token in use.
func (x *Exchange) GetOnce(ctx context.Context, q Request) (Response, error) {
	return x.ask(ctx, http.MethodGet, q)
}

// Head asks by HEAD. Nodes do not, so a bad answer counts as none, and GET decides. Only a
// failure that shows that GET would not be answered either is an error.
func (x *Exchange) Head(ctx context.Context, q Request) (Response, error) {
	r, err := x.ask(ctx, http.MethodHead, q)
	var f *Failure
	if errors.As(err, &f) && isInconclusive(http.MethodHead, f) {
		return Response{}, nil
	}
	return r, err
}

// ask sends the request q by method, at the registry's pace, and retries if that may help. An error is a *Failure or the end of ctx.
func (x *Exchange) ask(ctx context.Context, method string, q Request) (r Response, err error) {
	mayRepeat := func(f *Failure, attempt int) bool {
		return f.passes(attempt) && !isInconclusive(method, f) && x.breaker.open() == nil
	}
	q.method, q.url = method, x.session.scheme+"://"+x.api+"/v2/"+x.repository.Path()+"/"+q.Path
	err = again(ctx, mayRepeat, func() error {
		q.authorization = x.keychain().authorization(x.session, x.grant)
		return x.paced(ctx, maxRetryWait, func() (isNews bool, err error) {
			var f *Failure
			switch r, err = x.transport.ask(ctx, q); {
			case err == nil && r.Status >= http.StatusBadRequest:
				f = x.StatusFailure(r)
			case err != nil && ctx.Err() == nil:
				f = x.NoAnswer(err, x.transport.timeoutFor(err))
			}
			if f == nil || err == nil && f.load == fine {
				return true, err
			}
			return !isInconclusive(method, f), f
		})
	})
	return r, err
}

// isInconclusive reports whether f, by method, says nothing of a registry before GET has
// said the same: some answer every HEAD with 500 and serve every GET. A registry that
// does not answer at all, or asks for time, will do so to GET too.
func isInconclusive(method string, f *Failure) bool {
	return method == http.MethodHead && f.load != throttled && f.load != broken
}

// Refused returns why an answer to a GET has nothing of what was asked for; nil if it has.
func (x *Exchange) Refused(r Response) *Failure {
	switch r.Status {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return x.Denied(r)
	default:
		return x.StatusFailure(r)
	}
}

// Denied returns what the answer r, 401 or 403, means for nodes. It proves nothing if the
// registry was shown less than nodes show.
func (x *Exchange) Denied(r Response) *Failure {
	if x.grant != nil && x.grant.value.withheld != nil {
		return x.grant.value.withheld
	}
	return denied(x.api, r, x.credential)
}
