package copying

import (
	"fmt"
	"net/http"
	"net/url"
)

// uploads carry the requests of oras-go, which begins an upload with POST, and ends it with PUT at the location that
// the registry names, with all of the blob. Some registries want something else:
//
//   - Some name another host. oras-go refuses that, as it would send its credentials there. The carrier of the requests
//     sends credentials to the registry alone.
//   - Some name a path that does not say to which repository it belongs, as Google's Artifact Registry, while the carrier of the
//     requests has to know.
//   - Some take a blob only with PATCH, before a PUT without it.
//
// So oras-go is given the place of its POST as the location, which has the real one in it. A location with another scheme or port
// than the one by which the registry is reached is that of a registry that does not know of the proxy before it.
type uploads struct {
	http.RoundTripper
	endpoint *endpoint
}

// goesOn is the parameter of a location that has the real one.
const goesOn = "mirrorset-guard-location"

// RoundTrip implements http.RoundTripper.
func (u uploads) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.Method == http.MethodPost:
		return u.begin(req)
	case req.Method == http.MethodPut && req.URL.Query().Has(goesOn):
		return u.end(req)
	default:
		return u.RoundTripper.RoundTrip(req)
	}
}

func (u uploads) begin(req *http.Request) (*http.Response, error) {
	resp, err := u.RoundTripper.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		return resp, err
	}
	to, err := location(resp, req.URL)
	if err != nil || to.Host == "" || resp.Header.Get("Location") == "" {
		return resp, nil //nolint:nilerr // the library says so
	}
	at := *req.URL
	at.RawQuery = url.Values{goesOn: {to.String()}}.Encode()
	resp.Header.Set("Location", at.String())
	return resp, nil
}

func (u uploads) end(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	to, err := url.Parse(query.Get(goesOn))
	if err != nil {
		return nil, err
	}
	setQuery(to, "digest", query.Get("digest"))
	if u.endpoint.inPieces.Load() {
		return u.endInPieces(req, to, query.Get("digest"))
	}
	return u.RoundTripper.RoundTrip(moved(req, req.Method, to))
}

// endInPieces sends the blob of req as one piece, and ends the upload.
func (u uploads) endInPieces(req *http.Request, to *url.URL, digest string) (*http.Response, error) {
	setQuery(to, "digest", "")
	resp, err := u.RoundTripper.RoundTrip(moved(req, http.MethodPatch, to))
	if err != nil {
		return nil, err
	}
	resp.Body.Close()                                   // it has nothing that matters
	if resp.StatusCode < 200 || resp.StatusCode > 299 { // 202 by the specification; others say 200 or 204
		return nil, fmt.Errorf("%s answers %d to a piece of a blob, which is then not there", to.Host, resp.StatusCode)
	}
	next, err := location(resp, to)
	if err != nil {
		return nil, err
	}
	setQuery(next, "digest", digest)
	last := moved(req, http.MethodPut, next)
	last.Body, last.ContentLength = http.NoBody, 0
	return u.RoundTripper.RoundTrip(last)
}

// location returns where an upload goes on, by the answer to a request at a URL.
func location(resp *http.Response, at *url.URL) (*url.URL, error) {
	to, err := at.Parse(resp.Header.Get("Location"))
	if err != nil {
		return nil, err
	}
	if to.Hostname() == at.Hostname() && (to.Port() == at.Port() || to.Port() == "" || at.Port() == "") {
		to.Scheme, to.Host = at.Scheme, at.Host
	}
	return to, nil
}

// setQuery sets a parameter of u, or removes it if the value is "".
func setQuery(u *url.URL, name, value string) {
	query := u.Query()
	query.Set(name, value)
	if value == "" {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
}

// moved returns req for another method, and the place that a registry named when it was asked at that of req.
func moved(req *http.Request, method string, to *url.URL) *http.Request {
	other := req.Clone(req.Context())
	other.Method, other.URL, other.Host, other.GetBody = method, to, "", nil
	other.Response = &http.Response{Request: req}
	return other
}
