package wire

import (
	"context"
	"errors"
	"net/http"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
)

// An Exchange asks a registry about one repository, with what that takes: the registry's answer to GET /v2/, the
// credential and, once there is one, a token. It sends nothing but GET and HEAD for paths below the repository. A copy of it may be
// used beside it.
type Exchange struct {
	endpoint   *Endpoint
	repository Repository
	session    *session
	credential pullsecret.Entry
	// grant is the token in use, nil if there is none; final is set if there is
	// nothing better to be had.
	grant *grant
	final bool
}

func (e *Endpoint) exchange(ctx context.Context, r Repository, cred pullsecret.Entry) (*Exchange, error) {
	s, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	return &Exchange{endpoint: e, repository: r, session: s, credential: cred}, nil
}

// API returns the host that speaks for the registry ("registry-1.docker.io").
func (x *Exchange) API() string { return x.endpoint.api }

func (x *Exchange) keychain() *keychain { return x.endpoint.keychain(x.credential) }

// authorize gets a token for reading where the registry wants one.
func (x *Exchange) authorize(ctx context.Context) (err error) {
	if x.final = !x.session.wantsToken(); !x.final {
		x.grant, x.final, err = x.keychain().token(ctx, x.session, x.repository.pulling())
	}
	return err
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
	if f, ok := errors.AsType[*Failure](err); ok && isInconclusive(http.MethodHead, f) {
		return Response{}, nil
	}
	return r, err
}

// ask sends the request q by method, at the registry's pace, and retries if that may help. An error is a *Failure or the end of ctx.
func (x *Exchange) ask(ctx context.Context, method string, q Request) (r Response, err error) {
	mayRepeat := func(f *Failure, attempt int) bool {
		return f.passes(attempt) && !isInconclusive(method, f) && x.endpoint.breaker.open() == nil
	}
	q.method, q.url = method, x.session.scheme+"://"+x.endpoint.api+"/v2/"+x.repository.Path()+"/"+q.Path
	err = again(ctx, mayRepeat, func() error {
		q.authorization = x.keychain().authorization(x.session, x.grant)
		return x.endpoint.paced(ctx, maxRetryWait, func() (isNews bool, err error) {
			var f *Failure
			switch r, err = x.endpoint.transport.ask(ctx, q); {
			case err == nil && r.Status >= http.StatusBadRequest:
				f = x.StatusFailure(r)
			case err != nil && ctx.Err() == nil:
				f = x.endpoint.NoAnswer(err, x.endpoint.transport.timeoutFor(err))
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
	return denied(x.endpoint.api, r, x.credential)
}

// StatusFailure returns what an answer other than 200 means.
func (x *Exchange) StatusFailure(r Response) *Failure { return statusFailure(x.endpoint.api, r) }
