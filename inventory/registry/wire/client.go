package wire

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Options configure a Client. The zero value is the default. They must not be changed
// once a Client has them.
type Options struct {
	// UserAgent names the guard to registries; "" means "mirrorset-guard".
	UserAgent string
	// Timeout bounds one request, including its answer; 0 means limits.RequestTimeout.
	Timeout time.Duration
	// DialTimeout bounds the making of a connection, and again its TLS handshake; 0 means
	// limits.ConnectTimeout. A registry that swallows packets costs that much.
	DialTimeout time.Duration
	// Credentials are those of the nodes.
	Credentials pullsecret.Credentials
	// RootCAs are trusted instead of the system's; nil to trust those. To add
	// to them, start from x509.SystemCertPool.
	RootCAs *x509.CertPool
	// HostRootCAs are trusted instead of RootCAs at the host, or host and port, as the
	// reference names it ("mirror.example.com:5000").
	HostRootCAs map[string]*x509.CertPool
	// Resolve maps a "host:port" or "host" to where it is to be found: "ip:port", or "ip"
	// for the same port. Names in certificates and requests stay what they are. As the
	// operator sets it, no address in it is refused, and the proxy is bypassed.
	Resolve map[string]string
	// AllowLoopback permits registries at loopback addresses. Other addresses that mean
	// something only from where the guard runs are always refused.
	AllowLoopback bool
	// Proxy returns the proxy for a request, nil for none; if it is nil itself, that is http.ProxyFromEnvironment. A proxy can reach the
	// names that it resolves.
	Proxy func(*http.Request) (*url.URL, error)
	// Rates bound the requests a second to a registry, by its host in one spelling
	// (mirrors.OneSpelling); nil means DefaultRates.
	Rates map[string]float64

	longBodies chan struct{} // taken while a long body is read
}

// DefaultRates stay below the limits that registries have published; see package limits.
var DefaultRates = map[string]float64{"quay.io": limits.QuayRequestsPerSecond}

func (o Options) withDefaults() Options {
	o.UserAgent = cmp.Or(o.UserAgent, "mirrorset-guard")
	o.Timeout = cmp.Or(o.Timeout, limits.RequestTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, limits.ConnectTimeout)
	if o.Rates == nil {
		o.Rates = DefaultRates
	}
	o.longBodies = make(chan struct{}, limits.LongBodies)
	return o
}

// A Client holds what requests to registries share: the credentials, the trust, and for each registry its connections, tokens and
// pace. It is safe for concurrent use.
type Client struct {
	// parent is the Client that this one is derived from, and set what it does otherwise; nil if it is not derived.
	parent *Client
	set    func(*Options)
	// paces outlive generations, and derived Clients share them: how much a registry can take
	// does not depend on who asks.
	paces *paces

	mu         sync.Mutex
	options    Options // of one that is not derived
	generation *generation
	closed     bool
}

// NewClient returns a Client, which has to be closed.
func NewClient(o Options) *Client {
	o = o.withDefaults()
	c := &Client{options: o, paces: &paces{rates: o.Rates, byHost: map[string]*pace{}}}
	c.generation = newGeneration(context.Background(), c, o, 1)
	return c
}

// Propose returns a Client that trusts hostRoots instead of the CAs that c trusts for
// single hosts, and is otherwise as c is, whatever becomes of c: it shares the pace of each
// registry, and gets new credentials, CAs for all hosts and proxies when c does.
// Connections, sessions, tokens and failures are its own. It must be closed; closing c
// closes it too.
func (c *Client) Propose(hostRoots map[string]*x509.CertPool) *Client {
	return c.derive(func(o *Options) { o.HostRootCAs = hostRoots })
}

// With returns a Client that shows registries other credentials, and is otherwise to c as one that Propose returns.
func (c *Client) With(credentials pullsecret.Credentials) *Client {
	return c.derive(func(o *Options) { o.Credentials = credentials })
}

func (c *Client) derive(set func(*Options)) *Client {
	d := &Client{parent: c, set: set, paces: c.paces}
	d.generation = c.current().derive(d)
	return d
}

// Ask calls ask with what asks about r, as a node would, and once more each time when credentials or trust were changed meanwhile. It
// reports whether the credentials are those of the nodes. The error is a *Failure unless ctx, or c, ended before there was an answer.
func (c *Client) Ask(ctx context.Context, r Repository, ask func(context.Context, Exchange) error) (asNodes bool, err error) {
	for {
		g := c.current()
		err := g.ask(ctx, r, ask)
		switch {
		case err == nil:
			return g.credentials.AsNodes(r.Name), nil
		case ctx.Err() != nil || g.ended() && c.isClosed():
			return false, cmp.Or(ctx.Err(), g.ctx.Err())
		case g.ended():
			continue
		}
		var f *Failure
		if !errors.As(err, &f) {
			e := g.endpoint(r)
			f = e.NoAnswer(err, e.transport.timeoutFor(err))
		}
		return g.credentials.AsNodes(r.Name), f
	}
}

// Endpoint returns the registry of r, as it is asked with the credentials and the trust of now.
func (c *Client) Endpoint(r Repository) *Endpoint { return c.current().endpoint(r) }

// Prepare gets ready for questions about locations, usually of one registry: it waits for the
// answer to GET /v2/, and begins to fetch the tokens that these will need, many
// repositories at a time where the registry grants that. It returns false if one of the
// registries does not answer. Calling it is optional and saves requests.
func (c *Client) Prepare(ctx context.Context, locs []mirrors.Location) bool {
	g := c.current()
	wanted := map[*keychain][]string{}
	var keychains []*keychain
	for _, l := range locs {
		r, _, unreadable := Locate(l)
		if unreadable != nil {
			continue
		}
		cred, broken := g.credential(r)
		if broken != nil {
			continue
		}
		k := g.endpoint(r).keychain(cred)
		if wanted[k] == nil {
			keychains = append(keychains, k)
		}
		wanted[k] = append(wanted[k], r.pulling())
	}
	ok := true
	for _, k := range keychains {
		ok = k.prepare(ctx, wanted[k]) && ok
	}
	return ok
}

// SetRates replaces those of Options, for requests that are not yet under way. The map belongs to
// c afterwards.
func (c *Client) SetRates(rates map[string]float64) { c.paces.replace(rates) }

// SetCredentials makes the next request use credentials. Tokens that were granted to
// others are forgotten.
func (c *Client) SetCredentials(credentials pullsecret.Credentials) {
	c.change(func() bool {
		same := c.options.Credentials.Equal(credentials)
		c.options.Credentials = credentials
		return !same
	})
}

// SetTrust makes the next request trust roots (nil: the system's CAs), at their hosts
// hostRoots instead, and use proxy (nil: http.ProxyFromEnvironment), on new connections.
// They replace Options.RootCAs, HostRootCAs and Proxy, and count as one change, however
// many of them differ. Functions cannot be compared, so a proxy always counts as a change,
// unless there was none and is none.
func (c *Client) SetTrust(roots *x509.CertPool, hostRoots map[string]*x509.CertPool, proxy func(*http.Request) (*url.URL, error)) {
	c.change(func() bool {
		o := &c.options
		same := o.RootCAs.Equal(roots) && maps.EqualFunc(o.HostRootCAs, hostRoots, (*x509.CertPool).Equal) &&
			o.Proxy == nil && proxy == nil
		o.RootCAs, o.HostRootCAs, o.Proxy = roots, maps.Clone(hostRoots), proxy
		return !same
	})
}

// Generation counts the changes of credentials and trust. Facts of an earlier generation may be
// different now.
func (c *Client) Generation() uint64 { return c.current().number }

// Close ends the requests under way, and waits for them. It may be called twice.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	g := c.generation
	c.mu.Unlock()
	g.end()
}

// current returns the generation in force. That of a derived Client follows its parent's.
func (c *Client) current() *generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parent != nil && !c.closed {
		if of := c.parent.current(); of != c.generation.parent {
			c.generation = of.derive(c)
		}
	}
	return c.generation
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed || c.parent != nil && c.parent.isClosed()
}

// change applies set, and starts a new generation if that changed anything.
func (c *Client) change(set func() bool) {
	c.mu.Lock()
	old := c.generation
	if !set() || c.closed {
		c.mu.Unlock()
		return
	}
	c.generation = newGeneration(context.Background(), c, c.options, old.number+1)
	c.mu.Unlock()
	old.end()
}
