package registry

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
	// Proxy returns the proxy for a request; nil means http.ProxyFromEnvironment. A proxy can reach the
	// names that it resolves.
	Proxy Proxy
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
	o.UserAgent = cmp.Or(o.UserAgent, "mirrorset-guard")
	o.Timeout = cmp.Or(o.Timeout, limits.RequestTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, limits.ConnectTimeout)
	if o.Rates == nil {
		o.Rates = DefaultRates
	}
	o.longBodies = make(chan struct{}, limits.LongBodies)
	return o
}

// A Client asks registries. It is safe for concurrent use.
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

	nodes   nodePlatforms
	configs configs
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

// Probe asks the registry at l what a node would get there. The Fact is Unknown if
// and only if ctx ended before there was an answer.
func (c *Client) Probe(ctx context.Context, l mirrors.Location) policy.Fact {
	if l.ProposedTrust {
		return policy.NotAskedAsProposed(time.Now())
	}
	t, err := parseTarget(l)
	if err != nil {
		return err.fact(time.Now())
	}
	for {
		g := c.current()
		fact, err := g.probe(ctx, t)
		asNodes := g.credentials.AsNodes(t.name)
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
		cred, _ := g.credentials.Lookup(t.name)
		if cred.Broken != "" {
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
func (c *Client) SetCredentials(credentials pullsecret.Credentials) {
	c.change(func() bool {
		same := c.options.Credentials.Equal(credentials)
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
		same := o.RootCAs.Equal(roots) && maps.EqualFunc(o.HostRootCAs, hostRoots, (*x509.CertPool).Equal) &&
			o.Proxy == nil && proxy == nil
		o.RootCAs, o.HostRootCAs, o.Proxy = roots, maps.Clone(hostRoots), proxy
		return !same
	})
}

// A Proxy returns the proxy for a request, nil for none.
type Proxy = func(*http.Request) (*url.URL, error)

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
