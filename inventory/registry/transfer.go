package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/connection"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Transfer returns what carries the requests of a library to the registry of l, to read images there or,
// if it pushes, to write them. The library asks without credentials, and by https. Requests are authorized,
// paced, repeated and bounded as those of a Client are, except for the time that a body takes: it may
// take any, as long as something moves. Answers are those of success, redirects and, where something is read, 404;
// any other is an error that Reason has words for. The content of answers is not looked at. A request whose Response is set, as that of
// a redirect is, belongs to the repository of the request that was answered so.
func (c *Client) Transfer(l mirrors.Location, pushes bool) (http.RoundTripper, error) {
	t, err := parseTarget(l)
	if err != nil {
		return nil, err
	}
	return &transfer{client: c, target: t, pushes: pushes}, nil
}

// A transfer is an http.RoundTripper for one registry.
type transfer struct {
	client *Client
	target target
	pushes bool
}

const (
	// stalled is how long a request may be without a byte in either direction. A registry that puts a
	// large layer together on an object store takes a minute before it answers.
	stalled = 2 * time.Minute
	// maxThrottled is how often a request that was refused with 429 is repeated, each time when the registry
	// says, or later.
	maxThrottled = 10
)

// RoundTrip implements http.RoundTripper.
func (t *transfer) RoundTrip(req *http.Request) (*http.Response, error) {
	e := t.client.current().endpoint(t.target)
	r := &transferred{transfer: t, endpoint: e, request: req}
	resp, err := r.answer()
	if err != nil {
		closeBody(req)
	}
	return resp, err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close() // its error does not matter, as it was not read to its end
	}
}

// A transferred is one request of a transfer.
type transferred struct {
	*transfer
	endpoint *endpoint
	request  *http.Request
	session  *session
}

func (r *transferred) answer() (*http.Response, error) {
	if !r.isOfRegistry() {
		return r.elsewhere()
	}
	var err error
	if r.session, err = r.endpoint.open(r.request.Context()); err != nil {
		return nil, err
	}
	repository, what := splitPath(origin(r.request).URL.Path)
	switch method := r.request.Method; {
	case repository != "":
	case r.request.URL.Path == "/v2/" && (method == http.MethodGet || method == http.MethodHead): // for which the session stands
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r.request, ProtoMajor: 1, ProtoMinor: 1}, nil
	default:
		return nil, unreachable("%s is not asked with %s for %s, which belongs to no repository", r.endpoint.api, method, quote(r.request.URL.Path))
	}
	anew := false
	var resp *http.Response
	mayRepeat := func(f *failure, attempt int) bool {
		switch {
		case r.hasBody() || r.request.Context().Err() != nil:
			return false
		case f.load == throttled:
			return attempt < maxThrottled
		default:
			return f.again && attempt < maxAgain && r.endpoint.breaker.open() == nil
		}
	}
	err = again(r.request.Context(), mayRepeat, func() (err error) {
		resp, err = r.once(repository, what, anew)                           //nolint:bodyclose // there is none with an error, and else it is the caller's
		if Status(err) == http.StatusUnauthorized && !anew && !r.hasBody() { // the token may have expired
			anew = true
			resp, err = r.once(repository, what, anew) //nolint:bodyclose // as above
		}
		return err
	})
	return resp, err
}

func (r *transferred) hasBody() bool { return r.request.Body != nil && r.request.Body != http.NoBody }

// isOfRegistry reports whether the request is for the registry itself, and not for a storage that it named.
func (r *transferred) isOfRegistry() bool {
	return mirrors.SamePlace(r.request.URL.Host, r.target.host) // go-containerregistry calls the Docker Hub index.docker.io
}

// origin returns the first of the requests that led to req by the answers of registries. Only its path names the repository:
// later ones are of storage, or of an upload that has begun.
func origin(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// splitPath splits the path of a request into the repository and the kind of its request ("manifests").
func splitPath(path string) (repository, what string) {
	path, isAPI := strings.CutPrefix(path, "/v2/")
	if !isAPI {
		return "", ""
	}
	for _, what := range []string{"/manifests/", "/blobs/", "/referrers/", "/tags/"} {
		if at := strings.LastIndex(path, what); at > 0 {
			return path[:at], strings.Trim(what, "/")
		}
	}
	return "", ""
}

func (r *transferred) once(repository, what string, anew bool) (resp *http.Response, err error) {
	e, ctx := r.endpoint, r.request.Context()
	cred, _ := e.generation.credentials.Lookup(r.target.host + "/" + repository)
	if cred.Broken != "" {
		return nil, brokenEntry(r.target.host, cred)
	}
	authorization, err := r.authorization(ctx, cred, repository, anew)
	if err != nil {
		return nil, err
	}
	out := r.request.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.Host = r.session.scheme, e.api, ""
	out.Header.Set("User-Agent", e.transport.options.UserAgent)
	if authorization != "" {
		out.Header.Set("Authorization", authorization)
	}
	err = e.paced(ctx, maxRetryAfter, func() (isNews bool, err error) {
		var f *failure
		if resp, f, err = r.send(out, what, cred); f != nil { //nolint:bodyclose // as above
			return true, f
		}
		// How long it takes to send a body, or to put what was sent together, is not up to the registry alone.
		return err == nil && !r.hasBody() && r.request.Method != http.MethodPut, err
	})
	return resp, err
}

// authorization returns the header that opens a repository, and the one that a blob is mounted from.
func (r *transferred) authorization(ctx context.Context, cred pullsecret.Entry, repository string, anew bool) (string, error) {
	k := r.endpoint.keychain(cred)
	if !r.session.wantsToken() {
		return k.authorization(r.session, nil), nil
	}
	scope := "repository:" + repository + ":pull"
	if r.pushes {
		scope += ",push"
	}
	if from := r.request.URL.Query().Get("from"); from != "" && from != repository {
		if g, err := k.tokenFor(ctx, r.session, anew, scope, "repository:"+from+":pull"); err == nil {
			return k.authorization(r.session, g), nil
		}
	}
	g, err := k.tokenFor(ctx, r.session, anew, scope)
	if err != nil {
		return "", err
	}
	return k.authorization(r.session, g), nil
}

// elsewhere sends a request to where the registry redirected to, with nothing that is not for everyone.
func (r *transferred) elsewhere() (*http.Response, error) {
	out := r.request.Clone(r.request.Context())
	out.Header.Del("Authorization")
	_, what := splitPath(origin(r.request).URL.Path)
	resp, f, err := r.send(out, what, pullsecret.Entry{})
	if f != nil {
		return nil, f
	}
	return resp, err
}

// send sends a request, and ends it if nothing moves any more. The error is of a caller that has left, or of reading what it sends.
func (r *transferred) send(out *http.Request, what string, cred pullsecret.Entry) (*http.Response, *failure, error) {
	w := watch(out.Context(), stalled)
	out = out.WithContext(w.ctx)
	if r.hasBody() {
		out.Body = &watched{ReadCloser: r.request.Body, watch: w}
	}
	resp, err := r.endpoint.transport.RoundTrip(out)
	if err != nil {
		sent, idle := w.failed.Load(), w.idle()
		w.end()
		switch {
		case r.request.Context().Err() != nil:
			return nil, nil, r.request.Context().Err()
		case sent != nil:
			return nil, nil, *sent
		case idle:
			err = context.DeadlineExceeded
		}
		return nil, connectionFailure(r.endpoint.api, err, stalled), nil
	}
	resp.Request = r.request
	body := &watched{ReadCloser: resp.Body, watch: w, last: true}
	if what == "manifests" || what == "referrers" || what == "tags" {
		body.left = maxManifest + 1
	}
	resp.Body = body
	asks := out.Method == http.MethodGet || out.Method == http.MethodHead
	if resp.StatusCode < 400 || asks && resp.StatusCode == http.StatusNotFound || what == "referrers" {
		return resp, nil, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxOther)) // a part of it says enough
	answer := response{status: resp.StatusCode, header: resp.Header, body: said}
	f := r.refusal(answer, cred)
	f.cache = r.pushes && !asks && saysCache(answer)
	return nil, f, nil
}

// refusal returns what an answer of failure means.
func (r *transferred) refusal(answer response, cred pullsecret.Entry) *failure {
	switch host := r.endpoint.api; {
	case !r.isOfRegistry():
		f := unreachable("%s redirects to %s, which answers %s", host, text.OneLine(r.request.URL.Host, maxQuote), statusText(answer.status))
		f.status = answer.status
		return f
	case answer.status == http.StatusNotFound:
		return &failure{presence: policy.Unreachable, status: answer.status, detail: fmt.Sprintf("%s answers %s%s", host, statusText(answer.status), says(answer))}
	case answer.status != http.StatusUnauthorized && answer.status != http.StatusForbidden:
		return statusFailure(host, answer)
	case !r.pushes:
		return denied(host, answer, cred)
	case cred.Anonymous():
		return &failure{presence: policy.Denied, status: answer.status, detail: fmt.Sprintf("%s answers %d, and there are no credentials to push to it with; give --push-secret, or log in with podman or docker%s", host, answer.status, says(answer))}
	default:
		return &failure{presence: policy.Denied, status: answer.status, detail: fmt.Sprintf("%s answers %d to the credentials for pushing%s", host, answer.status, says(answer))}
	}
}

// A bodyWatch ends a request for which no byte has moved for a while.
type bodyWatch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	failed atomic.Pointer[error] // what went wrong when the body to be sent was read
}

var errStalled = errors.New("nothing moved")

func watch(ctx context.Context, limit time.Duration) *bodyWatch {
	w := &bodyWatch{limit: limit}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(limit, func() { w.cancel(errStalled) })
	return w
}

func (w *bodyWatch) moved() { w.timer.Reset(w.limit) }

func (w *bodyWatch) idle() bool { return errors.Is(context.Cause(w.ctx), errStalled) }

func (w *bodyWatch) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// A watched is a body, sent or received, whose bytes show that something moves.
type watched struct {
	io.ReadCloser
	watch *bodyWatch
	last  bool  // whether the request ends with it
	left  int64 // if positive, how many bytes it may have, and 1 more once they were read
}

var errTooLong = unreachable("the answer has more than 4 MiB, which nodes do not accept as a manifest")

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.moved()
	}
	if b.left > 0 {
		if b.left -= int64(n); b.left <= 0 {
			return 0, errTooLong
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		if !b.last {
			b.watch.failed.CompareAndSwap(nil, &err)
		} else if b.watch.idle() {
			err = fmt.Errorf("nothing came for %s: %w", b.watch.limit, io.ErrUnexpectedEOF)
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *watched) Close() error {
	err := b.ReadCloser.Close()
	if b.last {
		b.watch.end()
	}
	return err
}

// IsTemporary reports whether err, from a library over a Transfer, may pass if the same is tried again.
func IsTemporary(err error) bool {
	var f *failure
	if errors.As(err, &f) {
		return f.again || f.load == throttled || f.load == broken && !f.refused
	}
	return connection.IsReset(err)
}

// IsAbsent reports whether err says that a registry does not have what it was asked for.
func IsAbsent(err error) bool {
	var f *failure
	var answer *ggcr.Error
	return errors.As(err, &f) && f.presence == policy.Absent || errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// SaysNoRepository reports whether err, from a library over a Transfer, is the answer that there is no such repository.
func SaysNoRepository(err error) bool {
	var answer *ggcr.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound && len(answer.Errors) > 0 && answer.Errors[0].Code == ggcr.NameUnknownErrorCode
}

// Status returns the status of the answer behind err, which a library over a Transfer returned; 0 if there is none.
func Status(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.status
	}
	return 0
}

// Reason says in one short line, and in words that may be shown, what err from a library over a Transfer means.
func Reason(err error) string {
	var f *failure
	var answer *ggcr.Error
	switch {
	case errors.As(err, &f):
		return text.OneLine(f.detail, maxDetail)
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		said := slices.IndexFunc(answer.Errors, func(d ggcr.Diagnostic) bool { return d.Message != "" })
		if said < 0 {
			return "it is not there (404)"
		}
		return text.OneLine("it is not there (404), saying "+quote(answer.Errors[said].Message), maxDetail)
	default:
		return text.OneLine(connection.Innermost(err).Error(), maxDetail)
	}
}
