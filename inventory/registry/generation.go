package registry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A view is a Client with certain credentials and certain trust. When either
// changes, the view ends, with all sessions, connections and tokens that rest on
// it, and what was asked is asked again from the next one. So an old credential is
// never used after the change.
type view struct {
	client      *Client
	options     Options
	generation  uint64
	credentials Credentials

	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // for endpoints, and to order enter and end
	running sync.WaitGroup

	endpoints map[endpointKey]*endpoint
	blobs     shelf
}

type endpointKey struct {
	host     string // as the reference has it: trust goes by that name
	insecure bool
}

// maxEndpoints bounds the connection pools: a mirror set can name any number of
// hosts. The one not used for longest goes.
const maxEndpoints = 512

// newView is called with the client's lock held, or before anybody knows it.
func newView(c *Client, generation uint64) *view {
	v := &view{
		client:      c,
		options:     c.options,
		generation:  generation,
		credentials: c.options.Credentials,
		endpoints:   map[endpointKey]*endpoint{},
	}
	v.ctx, v.cancel = context.WithCancel(context.Background()) // a view outlives those who ask
	return v
}

// end cancels whatever is under way, waits for it and closes the connections.
func (v *view) end() {
	v.mu.Lock()
	v.cancel()
	endpoints := slices.Collect(maps.Values(v.endpoints))
	v.mu.Unlock()
	v.running.Wait()
	for _, e := range endpoints {
		e.close()
	}
}

func (v *view) ended() bool { return v.ctx.Err() != nil }

// enter counts the caller among those that end waits for, until leave. It returns
// false if the view has ended.
func (v *view) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended() {
		return false
	}
	v.running.Add(1)
	return true
}

func (v *view) leave() { v.running.Done() }

// spawn runs work in a goroutine that end waits for. It returns false if the view
// has ended.
func (v *view) spawn(work func()) bool {
	if !v.enter() {
		return false
	}
	go func() {
		defer v.leave()
		work()
	}()
	return true
}

// probe returns a Fact or, as an error, the reason that there is none: a *failure,
// or the end of a context.
func (v *view) probe(ctx context.Context, t target) (policy.Fact, error) {
	if !v.enter() {
		return policy.Fact{}, v.ctx.Err()
	}
	defer v.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()

	cred, _ := v.credentials.lookup(t.name)
	if cred.broken != "" {
		return policy.Fact{}, brokenEntry(t.host, cred)
	}
	e := v.endpoint(t)
	s, err := e.open(ctx)
	if err != nil {
		return policy.Fact{}, err
	}
	return (&question{endpoint: e, session: s, target: t, credential: cred}).answer(ctx)
}

// brokenEntry says that nodes would fail at the entry, before they ask anybody.
func brokenEntry(host string, cred credential) *failure {
	f := unreachable("the entry %s of the global pull secret, which is for %s, %s; repair it", quote(cred.entry), host, cred.broken)
	f.presence = policy.Denied
	return f
}

func (v *view) endpoint(t target) *endpoint {
	e, surplus := v.enterEndpoint(t)
	if surplus != nil {
		surplus.close()
	}
	return e
}

// enterEndpoint also returns the endpoint that had to make room, if one had to.
func (v *view) enterEndpoint(t target) (e, surplus *endpoint) {
	key := endpointKey{t.host, t.insecure}
	v.mu.Lock()
	defer v.mu.Unlock()
	if e = v.endpoints[key]; e == nil {
		surplus = v.makeRoom()
		e = v.newEndpoint(t)
		v.endpoints[key] = e
	}
	e.used = time.Now()
	return e, surplus
}

func (v *view) newEndpoint(t target) *endpoint {
	roots := v.options.RootCAs
	if pool, ok := v.options.HostRootCAs[t.host]; ok {
		roots = pool
	}
	dialTimeout := v.options.DialTimeout
	if t.insecure && !hasPort(t.api) {
		dialTimeout /= 2 // two ports may have to be tried
	}
	return &endpoint{
		view:     v,
		api:      t.api,
		insecure: t.insecure,
		way:      newWay(&v.options, roots, t.insecure, dialTimeout),
		pace:     v.client.paces.of(t.api),
		wallets:  map[string]*wallet{},
	}
}

// makeRoom takes the endpoint away that was not used for longest, if there are too
// many. Requests under way go on.
func (v *view) makeRoom() *endpoint {
	if len(v.endpoints) < maxEndpoints {
		return nil
	}
	var oldest endpointKey
	for key, e := range v.endpoints {
		if least := v.endpoints[oldest]; least == nil || e.used.Before(least.used) {
			oldest = key
		}
	}
	surplus := v.endpoints[oldest]
	delete(v.endpoints, oldest)
	return surplus
}

// A flight is work that several callers wait for and none of them owns: whoever
// has to leave does not take the others' answer along.
type flight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// fly starts work in the background. It belongs to v, whose end ends it.
func fly[T any](v *view, work func(context.Context) (T, error)) *flight[T] {
	f := &flight[T]{done: make(chan struct{})}
	started := v.spawn(func() {
		defer close(f.done)
		f.value, f.err = work(v.ctx)
	})
	if !started {
		f.err = v.ctx.Err()
		close(f.done)
	}
	return f
}

func (f *flight[T]) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func (f *flight[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
