package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/connection"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
)

// maxRedirects is the number that net/http allows, and so nodes follow.
const maxRedirects = 10

// A transport reaches one registry: its proxy, CAs and connections, and what may go over
// them. Each registry has its own: one HTTP/2 connection serves all requests to it, and a CA trusted
// for one registry is not trusted for another.
type transport struct {
	options *Options
	base    *http.Transport
	client  http.Client
	// clearText allows http, as insecure locations do.
	clearText bool
	dialer    net.Dialer
	// proxies are the addresses of proxies in use. They are the operator's choice
	// and may be where no registry may be.
	proxies sync.Map
}

// timeoutFor returns the time limit that was in force where err came from, for messages.
func (t *transport) timeoutFor(err error) time.Duration {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" || strings.Contains(err.Error(), "TLS handshake timeout") {
		return t.dialer.Timeout
	}
	return t.options.Timeout
}

// newTransport trusts roots (nil: the system's), or every certificate if insecure.
func newTransport(o *Options, roots *x509.CertPool, insecure bool, dialTimeout time.Duration) *transport {
	t := &transport{options: o, clearText: insecure}
	t.dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	t.base = &http.Transport{
		Proxy:       t.proxy,
		DialContext: t.dial,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			InsecureSkipVerify: insecure, //nolint:gosec // what the cluster's configuration says of this location
		},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    limits.RequestsPerRegistry,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		// A connection that has gone dead must not swallow every later request.
		HTTP2: &http.HTTP2Config{SendPingTimeout: o.Timeout, PingTimeout: o.DialTimeout},
	}
	t.client = http.Client{Transport: t, CheckRedirect: checkRedirect}
	return t
}

// checkRedirect removes the authorization, unless the redirect leads to the very server
// that it is for and never led elsewhere. Nodes keep it in more cases: net/http
// goes by the name alone, so that they send it to other ports, in clear text, and to
// subdomains too (http.Client, shouldCopyHeaderOnRedirect).
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return connection.RedirectError(fmt.Sprintf("redirects more than %d times", maxRedirects))
	}
	if via[0].Method == http.MethodPost {
		return connection.RedirectError("redirects a request that holds credentials")
	}
	if leftOrigin(req, via[0].URL) {
		req.Header.Del("Authorization")
	}
	return nil
}

// leftOrigin reports whether a redirect on the way from origin to req led to another
// server, or to another protocol.
func leftOrigin(req *http.Request, origin *url.URL) bool {
	for ; req.Response != nil; req = req.Response.Request {
		u := req.URL
		if u.Scheme != origin.Scheme || hostPort(u) != hostPort(origin) {
			return true
		}
	}
	return false
}

// RoundTrip implements http.RoundTripper: nothing leaves that should not,
// redirected requests included.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.check(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close() // nothing was read
		}
		return nil, err
	}
	return t.base.RoundTrip(req)
}

func (t *transport) check(u *url.URL) error {
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return connection.RedirectError("redirects to something that is not http")
	case !t.clearText:
		return connection.RedirectError("redirects to plain http, which is not followed")
	}
	if u.User != nil {
		return connection.RedirectError("redirects to a URL with credentials in it")
	}
	if _, mapped := t.mapped(hostPort(u)); mapped {
		return nil
	}
	return connection.CheckHost(u.Hostname(), t.options.AllowLoopback)
}

// hostPort returns the address that u is dialled by.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// mapped returns the address that Options.Resolve has instead of address.
func (t *transport) mapped(address string) (string, bool) {
	if to, ok := t.options.Resolve[address]; ok {
		return to, true
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", false
	}
	to, ok := t.options.Resolve[host]
	if !ok {
		return "", false
	}
	if _, _, err := net.SplitHostPort(to); err != nil {
		return net.JoinHostPort(to, port), true
	}
	return to, true
}

func (t *transport) proxy(req *http.Request) (*url.URL, error) {
	if _, mapped := t.mapped(hostPort(req.URL)); mapped {
		return nil, nil // the mapping says where to go
	}
	choose := t.options.Proxy
	if choose == nil {
		choose = http.ProxyFromEnvironment
	}
	proxy, err := choose(req)
	if err == nil && proxy != nil {
		t.proxies.Store(hostPort(proxy), nil)
	}
	return proxy, err
}

func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := t.dialer
	if to, mapped := t.mapped(address); mapped {
		return dialer.DialContext(ctx, network, to)
	}
	if _, isProxy := t.proxies.Load(address); !isProxy {
		// After the name was resolved and for each address tried, so that a name
		// cannot resolve to one address for us and to another for the dialer.
		dialer.Control = t.control
	}
	return dialer.DialContext(ctx, network, address)
}

func (t *transport) control(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading the address to dial: %w", err)
	}
	return connection.CheckAddress(addr.Addr(), t.options.AllowLoopback)
}

func (t *transport) close() { t.base.CloseIdleConnections() }

// ask sends one request and reads the answer, within the time limit for one request.
func (t *transport) ask(ctx context.Context, q Request) (Response, error) {
	ctx, cancel := context.WithTimeout(ctx, t.options.Timeout)
	defer cancel()
	req, err := q.build(ctx, t.options.UserAgent)
	if err != nil {
		return Response{}, err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close() // whatever could be read was read
	limit := q.Limit
	if resp.StatusCode >= http.StatusBadRequest {
		limit = min(limit, MaxOther)
	}
	body, err := t.read(ctx, resp.Body, limit+1)
	if err != nil {
		return Response{}, err
	}
	r := Response{Status: resp.StatusCode, Header: resp.Header, Body: body}
	if int64(len(body)) > limit {
		r.Body, r.Cut = body[:limit], true
	}
	if leftOrigin(resp.Request, req.URL) {
		r.redirected = resp.Request.URL.Host
	}
	return r, nil
}

// read reads at most limit bytes. Few bodies are long; to read all of them at once
// would let registries decide how much memory is used: see limits.LongBodies.
func (t *transport) read(ctx context.Context, body io.Reader, limit int64) ([]byte, error) {
	short, err := io.ReadAll(io.LimitReader(body, min(limit, limits.LongBody)))
	if err != nil || len(short) < limits.LongBody || limit <= limits.LongBody {
		return short, err
	}
	select {
	case t.options.longBodies <- struct{}{}:
		defer func() { <-t.options.longBodies }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	long := bytes.NewBuffer(short)
	_, err = io.Copy(long, io.LimitReader(body, limit-int64(len(short))))
	return long.Bytes(), err
}
