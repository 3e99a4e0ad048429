package registry

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
)

// Files reads files of web servers that are no registries, such as signatures of releases. It shows no credentials,
// and otherwise does as its Client: the proxies, the addresses that are never asked, and the time limit for one
// request. Clear text is allowed, as are redirects to it: the caller verifies a file.
type Files struct{ transport *transport }

// Files returns what reads files of servers with certificates by roots; nil means the system's. It is to be closed.
func (c *Client) Files(roots *x509.CertPool) *Files {
	options := c.current().options
	t := newTransport(&options, roots, false, options.DialTimeout)
	t.clearText = true
	return &Files{t}
}

// ErrUntrusted is the error of a server whose certificate is by none of the CAs. The remedy depends on whom they stand for.
var ErrUntrusted = errors.New("its certificate is of an unknown authority")

// Get reads the file at address, and at most limit bytes of it: cut says that it has more. The error is one that Reason
// has words for, and says that there was no answer.
func (f *Files) Get(ctx context.Context, address string, limit int64) (status int, body []byte, cut bool, err error) {
	answer, err := f.transport.ask(ctx, request{method: http.MethodGet, url: address, limit: limit})
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return 0, nil, false, ErrUntrusted
	}
	if err != nil {
		host := "the server"
		if u, bad := url.Parse(address); bad == nil {
			host = u.Host
		}
		return 0, nil, false, connectionFailure(host, err, f.transport.timeoutFor(err))
	}
	return answer.status, answer.body, answer.cut, nil
}

// Close closes the connections.
func (f *Files) Close() { f.transport.close() }
