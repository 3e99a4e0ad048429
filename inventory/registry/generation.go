package registry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A generation holds the sessions, connections and tokens that rest on one set of
// credentials and trust. When either changes, the generation ends with all of them, and
// lookups under way start again in the next one. So an old credential is never used after
// the change.
type generation struct {
	client      *Client
	parent      *generation // that it is derived from, nil for none
	options     Options
	number      uint64
	credentials pullsecret.Credentials

	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // for endpoints, and to order enter and end
	running sync.WaitGroup

	endpoints map[endpointKey]*endpoint
	blobs     blobCache
}

type endpointKey struct {
	host     string // as the reference has it: trust goes by that name
	insecure bool
}

// maxEndpoints bounds the connection pools: a mirror set can name any number of hosts. The
// least recently used one goes.
const maxEndpoints = 512

// newGeneration returns a generation that ends with ctx, which outlives all callers.
func newGeneration(ctx context.Context, c *Client, o Options, number uint64) *generation {
	g := &generation{client: c, options: o, number: number, credentials: o.Credentials, endpoints: map[endpointKey]*endpoint{}}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// derive returns a generation of c, which is derived from g's Client. It ends with g.
func (g *generation) derive(c *Client) *generation {
	o := g.options
	c.set(&o)
	d := newGeneration(g.ctx, c, o, g.number)
	d.parent = g
	g.spawn(func() {
		<-d.ctx.Done()
		d.end()
	})
	return d
}

// end cancels whatever is under way, waits for it and closes the connections.
func (g *generation) end() {
	g.mu.Lock()
	g.cancel()
	endpoints := slices.Collect(maps.Values(g.endpoints))
	g.mu.Unlock()
	g.running.Wait()
	for _, e := range endpoints {
		e.close()
	}
}

func (g *generation) ended() bool { return g.ctx.Err() != nil }

// begin counts the caller among those that end waits for, until finish. It returns
// false if the generation has ended.
func (g *generation) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended() {
		return false
	}
	g.running.Add(1)
	return true
}

func (g *generation) finish() { g.running.Done() }

// spawn runs work in a goroutine that end waits for. It returns false if the generation
// has ended.
func (g *generation) spawn(work func()) bool {
	if !g.begin() {
		return false
	}
	go func() {
		defer g.finish()
		work()
	}()
	return true
}

// probe returns a Fact or, as an error, the reason that there is none: a *failure,
// or the end of a context.
func (g *generation) probe(ctx context.Context, t target) (policy.Fact, error) {
	if !g.begin() {
		return policy.Fact{}, g.ctx.Err()
	}
	defer g.finish()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()

	cred, _ := g.credentials.Lookup(t.name)
	if cred.Broken != "" {
		return policy.Fact{}, brokenEntry(t.host, cred)
	}
	e := g.endpoint(t)
	s, err := e.open(ctx)
	if err != nil {
		return policy.Fact{}, err
	}
	l := &lookup{endpoint: e, session: s, target: t, credential: cred}
	if err := l.authorize(ctx); err != nil {
		return policy.Fact{}, err
	}
	switch t.depth {
	case mirrors.DepthSignatures:
		return l.signatures(ctx)
	case mirrors.DepthReferrers:
		return l.referrers(ctx)
	default:
		return l.answer(ctx)
	}
}

// brokenEntry returns the failure of nodes at the entry, before any request.
func brokenEntry(host string, cred pullsecret.Entry) *failure {
	f := unreachable("the entry %s of the global pull secret, which is for %s, %s; repair it", quote(cred.Key), host, cred.Broken)
	f.presence, f.trouble = policy.Denied, policy.Trouble{Cause: policy.BrokenEntry, Entry: cred.Key}
	return f
}

func (g *generation) endpoint(t target) *endpoint {
	e, surplus := g.enterEndpoint(t)
	if surplus != nil {
		surplus.close()
	}
	return e
}

// enterEndpoint also returns the endpoint that had to make room, if one had to.
func (g *generation) enterEndpoint(t target) (e, surplus *endpoint) {
	key := endpointKey{t.host, t.insecure}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e = g.endpoints[key]; e == nil {
		surplus = g.makeRoom()
		e = g.newEndpoint(t)
		g.endpoints[key] = e
	}
	e.used = time.Now()
	return e, surplus
}

func (g *generation) newEndpoint(t target) *endpoint {
	roots := g.options.RootCAs
	if pool, ok := g.options.HostRootCAs[t.host]; ok {
		roots = pool
	}
	ports := time.Duration(1)
	if t.insecure && !hasPort(t.api) {
		ports = 2 // that of HTTP after that of HTTPS
	}
	return &endpoint{
		generation: g,
		api:        t.api,
		insecure:   t.insecure,
		transport:  newTransport(&g.options, roots, t.insecure, g.options.DialTimeout/ports),
		pace:       g.client.paces.forHost(t.api),
		keychains:  map[string]*keychain{},
	}
}

// makeRoom removes the least recently used endpoint, if there are too many. Its requests
// under way are completed.
func (g *generation) makeRoom() *endpoint {
	if len(g.endpoints) < maxEndpoints {
		return nil
	}
	var oldest endpointKey
	for key, e := range g.endpoints {
		if least := g.endpoints[oldest]; least == nil || e.used.Before(least.used) {
			oldest = key
		}
	}
	surplus := g.endpoints[oldest]
	delete(g.endpoints, oldest)
	return surplus
}

// A sharedCall is work that several callers wait for and none of them owns: one that has to
// leave does not take the others' answer along. It keeps its answer: with
// x/sync/singleflight there is a moment, after the work has ended and before the answer is
// stored, in which a caller would start the same work again. And it belongs to a
// generation, whose end waits for it.
type sharedCall[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// startCall starts work in the background. It belongs to g, whose end ends it.
func startCall[T any](g *generation, work func(context.Context) (T, error)) *sharedCall[T] {
	c := &sharedCall[T]{done: make(chan struct{})}
	started := g.spawn(func() {
		defer close(c.done)
		c.value, c.err = work(g.ctx)
	})
	if !started {
		c.err = g.ctx.Err()
		close(c.done)
	}
	return c
}

func (c *sharedCall[T]) finished() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *sharedCall[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
