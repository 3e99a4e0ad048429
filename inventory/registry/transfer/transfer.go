package transfer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// New returns what carries the requests of a library to the registry of l, to read images there or,
// if it pushes, to write them. The library asks without credentials, and by https. Answers are those of success, redirects and, where
// something is read, 404, or what HasNoReferrers holds of; any other is an error that Reason has words for. A request whose Response is
// set, as that of a redirect is, belongs to the repository of the request that was answered so.
func New(registries Registries, l mirrors.Location, pushes bool) (http.RoundTripper, error) {
	r, _, unreadable := wire.Locate(l)
	if unreadable != nil {
		return nil, unreadable
	}
	return &transfer{registries: registries, place: r, pushes: pushes}, nil
}

// Registries are what a *wire.Client knows of registries.
type Registries interface {
	Endpoint(r wire.Repository) *wire.Endpoint
}

// A transfer is an http.RoundTripper for one registry.
type transfer struct {
	registries Registries
	place      wire.Repository // one of the registry
	pushes     bool
}

// stalled is how long a request may take to move leastMoved bytes in either direction, or the rest. A registry that puts a
// large layer together on an object store takes a minute before it answers; 64 blobs at once are as fast on a line of 300 kbit/s.
const (
	stalled    = 2 * time.Minute
	leastMoved = 64 << 10
)

// RoundTrip implements http.RoundTripper.
func (t *transfer) RoundTrip(req *http.Request) (*http.Response, error) {
	r := &transferred{transfer: t, endpoint: t.registries.Endpoint(t.place), request: req}
	resp, err := r.answer()
	if err != nil && req.Body != nil {
		req.Body.Close() // its error does not matter, as it was not read to its end
	}
	return resp, err
}

// A transferred is one request of a transfer.
type transferred struct {
	*transfer
	endpoint *wire.Endpoint
	request  *http.Request
}

func (r *transferred) answer() (*http.Response, error) {
	// A storage that the registry named is another host. go-containerregistry calls the Docker Hub index.docker.io.
	if !mirrors.SamePlace(r.request.URL.Host, r.place.Host()) {
		return r.elsewhere()
	}
	ctx := r.request.Context()
	repository, what := splitPath(origin(r.request).URL.Path)
	if repository == "" {
		return r.beside()
	}
	x, err := r.endpoint.Sender(ctx, repository)
	if err != nil {
		return nil, err
	}
	anew := false
	var resp *http.Response
	send := func() (err error) {
		resp, err = r.once(x, repository, what, anew)                        //nolint:bodyclose // there is none with an error, and else it is the caller's
		if Status(err) == http.StatusUnauthorized && !anew && !r.hasBody() { // the token may have expired
			anew = true
			resp, err = r.once(x, repository, what, anew) //nolint:bodyclose // as above
		}
		return err
	}
	if r.hasBody() {
		err = send()
	} else {
		err = r.endpoint.Repeat(ctx, send)
	}
	return resp, err
}

// beside answers what belongs to no repository: only GET /v2/ is asked, and asked already.
func (r *transferred) beside() (*http.Response, error) {
	if err := r.endpoint.Ping(r.request.Context()); err != nil {
		return nil, err
	}
	method, path := r.request.Method, r.request.URL.Path
	if path != "/v2/" || method != http.MethodGet && method != http.MethodHead {
		return nil, wire.Unreachable("%s is not asked with %s for %s, which belongs to no repository", r.endpoint.API(), method, wire.Quote(path))
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r.request, ProtoMajor: 1, ProtoMinor: 1}, nil
}

func (r *transferred) hasBody() bool { return r.request.Body != nil && r.request.Body != http.NoBody }

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

func (r *transferred) once(x *wire.Sender, repository, what string, anew bool) (resp *http.Response, err error) {
	ctx := r.request.Context()
	out := r.request.Clone(ctx)
	if err := r.authorize(x, out, repository, anew); err != nil {
		return nil, err
	}
	err = r.endpoint.Paced(ctx, func() (isNews bool, err error) {
		var refusal error
		if resp, refusal, err = r.send(out, what, x); refusal != nil { //nolint:bodyclose // as above
			// Some may fail whenever they are asked for referrers, and serve all else.
			return what != "referrers" || Status(refusal) < http.StatusInternalServerError, refusal
		}
		// How long it takes to send a body, or to put what was sent together, is not up to the registry alone.
		return err == nil && !r.hasBody() && r.request.Method != http.MethodPut, err
	})
	return resp, err
}

// authorize makes out a request that opens a repository, and the one that a blob is mounted from.
func (r *transferred) authorize(x *wire.Sender, out *http.Request, repository string, anew bool) error {
	ctx, scope := out.Context(), "repository:"+repository+":pull"
	if r.pushes {
		scope += ",push"
	}
	if from := out.URL.Query().Get("from"); from != "" && from != repository && x.Authorize(ctx, out, anew, scope, "repository:"+from+":pull") == nil {
		return nil
	}
	return x.Authorize(ctx, out, anew, scope)
}

// elsewhere sends a request to where the registry redirected to, with nothing that is not for everyone.
func (r *transferred) elsewhere() (*http.Response, error) {
	out := r.request.Clone(r.request.Context())
	out.Header.Del("Authorization")
	_, what := splitPath(origin(r.request).URL.Path)
	resp, refusal, err := r.send(out, what, nil)
	return resp, cmp.Or(refusal, err)
}

// send sends a request, and ends it if nothing moves any more. The refusal is a *wire.Failure; the error is of a caller that has left, or of
// reading what it sends.
func (r *transferred) send(out *http.Request, what string, x *wire.Sender) (resp *http.Response, refusal, err error) {
	w := watch(out.Context(), stalled)
	out = out.WithContext(w.ctx)
	if r.hasBody() {
		out.Body = &watched{ReadCloser: r.request.Body, watch: w}
	}
	if resp, err = r.endpoint.RoundTrip(out); err != nil {
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
		return nil, r.endpoint.NoAnswer(err, stalled), nil
	}
	resp.Request = shown(r.request)
	body := &watched{ReadCloser: resp.Body, watch: w, last: true}
	if what == "manifests" || what == "referrers" || what == "tags" {
		body.left = wire.MaxManifest + 1
	}
	resp.Body = body
	asks := out.Method == http.MethodGet || out.Method == http.MethodHead
	if resp.StatusCode < 400 || asks && resp.StatusCode == http.StatusNotFound || what == "referrers" && HasNoReferrers(resp) {
		return resp, nil, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, wire.MaxOther)) // a part of it says enough
	answer := wire.Response{Status: resp.StatusCode, Header: resp.Header, Body: said}
	f := r.refusal(answer, x)
	if r.pushes && !asks && saysCache(answer) {
		return nil, cacheRefusal{f}, nil
	}
	return nil, f, nil
}

// shown returns req as libraries may name it in errors: what is in the query may be the credential of an upload or of a storage.
func shown(req *http.Request) *http.Request {
	other, at := *req, *req.URL
	at.RawQuery = ""
	other.URL = &at
	return &other
}

// HasNoReferrers reports whether resp, to a request for referrers, is that of a registry that has no lists of them, as
// go-containerregistry takes it (pkg/v1/remote/referrers.go).
func HasNoReferrers(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") != string(types.OCIImageIndex) ||
		slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable}, resp.StatusCode)
}

// refusal returns what an answer of failure means; x is nil if it is not of the registry.
func (r *transferred) refusal(answer wire.Response, x *wire.Sender) *wire.Failure {
	host, status := r.endpoint.API(), answer.StatusText()
	switch {
	case x == nil:
		f := wire.Unreachable("%s redirects to %s, which answers %s", host, text.OneLine(r.request.URL.Host, wire.MaxQuote), status)
		f.Status = answer.Status
		return f
	case answer.Status == http.StatusNotFound:
		return &wire.Failure{Presence: policy.Unreachable, Status: answer.Status, Detail: fmt.Sprintf("%s answers %s%s", host, status, answer.Says())}
	case answer.Status != http.StatusUnauthorized && answer.Status != http.StatusForbidden:
		return x.StatusFailure(answer)
	case !r.pushes:
		return x.Denied(answer)
	case x.Anonymous():
		return &wire.Failure{Presence: policy.Denied, Status: answer.Status, Detail: fmt.Sprintf("%s answers %d, and there are no credentials to push to it with; give --push-secret, or log in with podman or docker%s", host, answer.Status, answer.Says())}
	default:
		return &wire.Failure{Presence: policy.Denied, Status: answer.Status, Detail: fmt.Sprintf("%s answers %d to the credentials for pushing%s", host, answer.Status, answer.Says())}
	}
}
