package wire

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
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
	kept      sync.Map // see Kept
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

// Kept returns the T in which those who ask keep what they learn by the credentials and the trust of x, the zero value at first. All
// who ask by these share it, and it is dropped with them.
func Kept[T any](x *Exchange) *T {
	kept, _ := x.endpoint.generation.kept.LoadOrStore((*T)(nil), new(T))
	return kept.(*T)
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
	cred, err := g.credential(r)
	if err != nil {
		return err // before its endpoint takes the room of another
	}
	x, err := g.endpoint(r).exchange(ctx, r, cred)
	if err == nil {
		err = x.authorize(ctx)
	}
	if err != nil {
		return err
	}
	return ask(ctx, *x)
}

// credential returns what is shown to the registry of r. It fails where nodes do: at a broken entry, before any request.
func (g *generation) credential(r Repository) (pullsecret.Entry, error) {
	cred, _ := g.credentials.Lookup(r.Name)
	if cred.Broken == "" {
		return cred, nil
	}
	f := Unreachable("the entry %s of the global pull secret, which is for %s, %s; repair it", Quote(cred.Key), r.Host(), cred.Broken)
	f.Presence, f.trouble = policy.Denied, policy.Trouble{Cause: policy.BrokenEntry, Entry: cred.Key}
	return cred, f
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
		host:       r.Host(),
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
