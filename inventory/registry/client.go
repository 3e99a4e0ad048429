package registry

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/limits"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
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
	Credentials Credentials
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
	// Proxy returns the proxy for a request; nil means http.ProxyFromEnvironment. A proxy can reach the
	// names that it resolves.
	Proxy Proxy
	// PerRegistry bounds the requests under way to one registry; 0 means
	// limits.RequestsPerRegistry. There are fewer where a registry is slow or refuses.
	PerRegistry int
	// Rates bound the requests a second to a registry, by its host in one spelling
	// (mirrors.OneSpelling); nil means DefaultRates.
	Rates map[string]float64
	// Platforms returns those of the nodes, as os/architecture ("linux/arm64"), none
	// where they are not known. With it, every index is read, and its children for
	// these are looked up; without it, only indexes at Locations of DepthManifest and
	// beyond are. It is called at most once a second.
	Platforms func() []string

	longBodies chan struct{} // taken while a long body is read
}

// DefaultRates stay below the limits that registries have published; see package limits.
var DefaultRates = map[string]float64{"quay.io": limits.QuayRequestsPerSecond}

func (o Options) withDefaults() Options {
	if o.UserAgent == "" {
		o.UserAgent = "mirrorset-guard"
	}
	if o.Timeout <= 0 {
		o.Timeout = limits.RequestTimeout
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = limits.ConnectTimeout
	}
	if o.PerRegistry <= 0 {
		o.PerRegistry = limits.RequestsPerRegistry
	}
	if o.Rates == nil {
		o.Rates = DefaultRates
	}
	o.longBodies = make(chan struct{}, limits.LongBodies)
	return o
}

// dialTimeout returns the share of DialTimeout that each of so many ports has.
func (o *Options) dialTimeout(ports int) time.Duration { return o.DialTimeout / time.Duration(ports) }

// A Client asks registries. It is safe for concurrent use.
type Client struct {
	options Options

	mu         sync.Mutex
	generation *generation
	closed     bool
	// proposals are clients for CAs that are not in force (see Propose), and parent is
	// the Client that this one is a proposal of, nil if it is not one.
	proposals map[*Client]struct{}
	parent    *Client
	handOver  sync.Mutex // orders the handing over to proposals

	// paces outlive generations, and proposals share them: how much a registry can take
	// does not depend on who asks.
	paces *paces

	nodes   nodePlatforms
	configs configs
}

// NewClient returns a Client, which has to be closed.
func NewClient(o Options) *Client {
	o = o.withDefaults()
	return newClient(o, &paces{most: o.PerRegistry, rates: o.Rates, byHost: map[string]*pace{}})
}

func newClient(o Options, p *paces) *Client {
	c := &Client{options: o, proposals: map[*Client]struct{}{}, paces: p}
	c.generation = newGeneration(c, 1)
	return c
}

// Probe asks the registry at l what a node would get there. The Fact is Unknown if
// and only if ctx ended before there was an answer.
func (c *Client) Probe(ctx context.Context, l mirrors.Location) policy.Fact {
	if l.ProposedTrust {
		return policy.NotAskedAsProposed(time.Now())
	}
	t, err := parseTarget(l)
	if err != nil {
		return unreachable("no node can read the reference %s", quote(l.Ref)).fact(time.Now())
	}
	for {
		g := c.current()
		fact, err := g.probe(ctx, t)
		asNodes := g.credentials.asNodes(t.name)
		if err == nil {
			fact.AsNodes = asNodes
			return fact
		}
		if ctx.Err() != nil || g.ended() && c.isClosed() {
			return policy.Fact{Detail: "no answer yet"}
		}
		if g.ended() {
			continue // credentials or trust were changed meanwhile
		}
		var f *failure
		if !errors.As(err, &f) {
			f = connectionFailure(t.api, err, g.endpoint(t).transport.timeoutFor(err))
		}
		fact = f.fact(time.Now())
		fact.AsNodes = asNodes
		return fact
	}
}

// Prepare gets ready for probes of locations, usually of one registry: it waits for the
// answer to GET /v2/, and begins to fetch the tokens that the probes will need, many
// repositories at a time where the registry grants that. It returns false if one of the
// registries does not answer. Calling it is optional and saves requests.
func (c *Client) Prepare(ctx context.Context, locs []mirrors.Location) bool {
	g := c.current()
	wanted := map[*keychain][]string{}
	var keychains []*keychain
	for _, l := range locs {
		t, err := parseTarget(l)
		if err != nil {
			continue
		}
		cred, _ := g.credentials.lookup(t.name)
		if cred.broken != "" {
			continue
		}
		k := g.endpoint(t).keychain(cred)
		if wanted[k] == nil {
			keychains = append(keychains, k)
		}
		wanted[k] = append(wanted[k], t.scope())
	}
	ok := true
	for _, k := range keychains {
		ok = k.prepare(ctx, wanted[k]) && ok
	}
	return ok
}

// SetCredentials makes the next probe use credentials. Tokens that were granted to
// others are forgotten.
func (c *Client) SetCredentials(credentials Credentials) {
	c.change(func() bool {
		same := c.options.Credentials.equal(credentials)
		c.options.Credentials = credentials
		return !same
	})
}

// SetTrust makes the next probe trust roots (nil: the system's CAs), at their hosts
// hostRoots instead, and use proxy (nil: http.ProxyFromEnvironment), on new connections.
// They replace Options.RootCAs, HostRootCAs and Proxy, and count as one change, however
// many of them differ. Functions cannot be compared, so a proxy always counts as a change,
// unless there was none and is none.
func (c *Client) SetTrust(roots *x509.CertPool, hostRoots map[string]*x509.CertPool, proxy Proxy) {
	c.change(func() bool {
		o := &c.options
		same := samePool(o.RootCAs, roots) && maps.EqualFunc(o.HostRootCAs, hostRoots, samePool) &&
			o.Proxy == nil && proxy == nil
		o.RootCAs, o.HostRootCAs, o.Proxy = roots, maps.Clone(hostRoots), proxy
		return !same
	})
}

// A Proxy returns the proxy for a request, nil for none.
type Proxy = func(*http.Request) (*url.URL, error)

func samePool(a, b *x509.CertPool) bool {
	return a == b || a != nil && b != nil && a.Equal(b)
}

// Generation counts the changes of credentials and trust. Facts of an earlier generation may be
// different now.
func (c *Client) Generation() uint64 { return c.current().number }

// Close ends the requests under way, and waits for them. It may be called twice.
func (c *Client) Close() {
	if c.parent != nil {
		c.parent.forget(c)
	}
	c.mu.Lock()
	c.closed = true
	g := c.generation
	proposals := slices.Collect(maps.Keys(c.proposals))
	c.mu.Unlock()
	for _, p := range proposals {
		p.Close()
	}
	g.end()
}

func (c *Client) current() *generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// change applies set, and starts a new generation if that changed anything. It applies to
// proposals too, except for the CAs that they propose.
func (c *Client) change(set func() bool) {
	c.mu.Lock()
	old := c.generation
	if !set() || c.closed {
		c.mu.Unlock()
		return
	}
	c.generation = newGeneration(c, old.number+1)
	c.mu.Unlock()
	old.end()
	c.handDown()
}

// Propose returns a Client that trusts hostRoots instead of the CAs that c trusts for
// single hosts, and is otherwise as c is, whatever becomes of c: it shares the pace of each
// registry, and gets new credentials, CAs for all hosts and proxies when c does.
// Connections, sessions, tokens and failures are its own. It must be closed; closing c
// closes it too.
func (c *Client) Propose(hostRoots map[string]*x509.CertPool) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.options
	o.HostRootCAs = maps.Clone(hostRoots)
	p := newClient(o, c.paces)
	if c.closed {
		p.closed = true
		p.generation.end()
		return p
	}
	p.parent = c
	c.proposals[p] = struct{}{}
	return p
}

// forget removes a proposal that is being closed.
func (c *Client) forget(p *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.proposals, p)
}

// handDown passes changes on to proposals.
func (c *Client) handDown() {
	c.handOver.Lock() // or an older state could arrive after a newer one
	defer c.handOver.Unlock()
	c.mu.Lock()
	o := c.options
	proposals := make([]*Client, 0, len(c.proposals))
	for p := range c.proposals {
		proposals = append(proposals, p)
	}
	c.mu.Unlock()
	for _, p := range proposals {
		p.change(func() bool {
			p.options.Credentials, p.options.RootCAs, p.options.Proxy = o.Credentials, o.RootCAs, o.Proxy
			return true
		})
	}
}
