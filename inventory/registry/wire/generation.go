package wire

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
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

	endpoints map[endpointKey]*Endpoint
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
	g := &generation{client: c, options: o, number: number, credentials: o.Credentials, endpoints: map[endpointKey]*Endpoint{}}
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

// ask calls ask with what asks about r, and ends it with g.
func (g *generation) ask(ctx context.Context, r Repository, ask func(context.Context, Exchange) error) error {
	if !g.begin() {
		return g.ctx.Err()
	}
	defer g.finish()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	x, err := g.endpoint(r).Exchange(ctx, r)
	if err == nil {
		err = x.authorize(ctx)
	}
	if err != nil {
		return err
	}
	return ask(ctx, *x)
}

func (g *generation) endpoint(r Repository) *Endpoint {
	e, surplus := g.enterEndpoint(r)
	if surplus != nil {
		surplus.close()
	}
	return e
}

// enterEndpoint also returns the endpoint that had to make room, if one had to.
func (g *generation) enterEndpoint(r Repository) (e, surplus *Endpoint) {
	key := endpointKey{r.Host(), r.Insecure}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e = g.endpoints[key]; e == nil {
		surplus = g.makeRoom()
		e = g.newEndpoint(r)
		g.endpoints[key] = e
	}
	e.used = time.Now()
	return e, surplus
}

func (g *generation) newEndpoint(r Repository) *Endpoint {
	roots := g.options.RootCAs
	if pool, ok := g.options.HostRootCAs[r.Host()]; ok {
		roots = pool
	}
	api, ports := r.api(), time.Duration(1)
	if r.Insecure && !hasPort(api) {
		ports = 2 // that of HTTP after that of HTTPS
	}
	return &Endpoint{
		generation: g,
		api:        api,
		insecure:   r.Insecure,
		transport:  newTransport(&g.options, roots, r.Insecure, g.options.DialTimeout/ports),
		pace:       g.client.paces.forHost(api),
		keychains:  map[string]*keychain{},
	}
}

// makeRoom removes the least recently used endpoint, if there are too many. Its requests
// under way are completed.
func (g *generation) makeRoom() *Endpoint {
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
