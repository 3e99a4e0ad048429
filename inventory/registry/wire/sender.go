package wire

import (
	"context"
	"net/http"
)

// A Sender is an Exchange that also authorizes requests made by others, of any method, for one repository.
type Sender struct{ Exchange }

// Sender returns what sends requests for a repository by its path ("library/nginx"), which need not be that of any location. It
// fails if the registry does not answer or the entry of the pull secret is broken.
func (e *Endpoint) Sender(ctx context.Context, path string) (*Sender, error) {
	r := Repository{Name: e.host + "/" + path, Insecure: e.insecure}
	cred, err := e.generation.credential(r)
	if err != nil {
		return nil, err
	}
	x, err := e.exchange(ctx, r, cred)
	if err != nil {
		return nil, err
	}
	return &Sender{*x}, nil
}

// Anonymous reports whether there are no credentials for the repository.
func (s *Sender) Anonymous() bool { return s.credential.Anonymous() }

// Authorize makes req, which has the path, a request to the registry that opens scopes, by a new token if anew is set.
func (s *Sender) Authorize(ctx context.Context, req *http.Request, anew bool, scopes ...string) (err error) {
	var g *grant
	if s.session.wantsToken() {
		if g, err = s.keychain().tokenFor(ctx, s.session, anew, scopes...); err != nil {
			return err
		}
	}
	req.URL.Scheme, req.URL.Host, req.Host = s.session.scheme, s.endpoint.api, ""
	req.Header.Set("User-Agent", s.endpoint.transport.options.UserAgent)
	if authorization := s.keychain().authorization(s.session, g); authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return nil
}
