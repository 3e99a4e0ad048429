package registry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// A wallet holds the tokens of one registry that one credential has been granted.
// They are fetched one at a time, because token servers are guarded more closely
// than manifests (Quay's published limits allow a burst of 2), and so that many
// repositories can share one.
type wallet struct {
	endpoint   *endpoint
	credential credential
	turn       chan struct{} // taken while a token is fetched

	mu     sync.Mutex
	grants map[string]*grant // by scope
	// share is how many scopes one token is asked to have: 1 for servers that
	// honour only the first.
	share int
}

const (
	// maxShare is what distribution's token servers and Quay's were seen to grant.
	maxShare = 50
	// maxScopes bounds the length of their names together, so that the URL stays
	// below the 8 kB that proxies let through.
	maxScopes = 4000
	// grudge is how long a refused token is not asked for again.
	grudge = 2 * time.Second
)

// A grant is a token that was asked for, and what became of it.
type grant struct {
	scopes []string
	done   chan struct{}
	token
	err   error
	until time.Time // for how long it counts, once done
}

func newWallet(e *endpoint, cred credential) *wallet {
	return &wallet{
		endpoint:   e,
		credential: cred,
		turn:       make(chan struct{}, 1),
		grants:     map[string]*grant{},
		share:      maxShare,
	}
}

// counts reports whether g is worth waiting for, or worth having.
func (g *grant) counts() bool {
	select {
	case <-g.done:
		return time.Now().Before(g.until)
	default:
		return true
	}
}

// shared reports whether g is for several repositories.
func (g *grant) shared() bool { return len(g.scopes) > 1 }

// token returns a token for scope, and whether it was fetched for this call alone,
// so that it says all that can be said about the credential's rights.
func (w *wallet) token(ctx context.Context, s *session, scope string) (g *grant, fresh bool, err error) {
	g, fresh = w.grant(s, scope)
	if err := g.wait(ctx); err != nil && g.shared() && ctx.Err() == nil {
		// A server may refuse the whole for one of its parts.
		w.forget(g, scope)
		g, fresh = w.grant(s, scope)
	}
	return g, fresh, g.wait(ctx)
}

// alone returns a new token for scope and, if it is not "", for extra.
func (w *wallet) alone(ctx context.Context, s *session, scope, extra string) (*grant, error) {
	scopes := []string{scope}
	if extra != "" && extra != scope {
		scopes = append(scopes, extra)
	}
	g := newGrant(scopes)
	w.mu.Lock()
	w.grants[scope] = g
	w.mu.Unlock()
	w.start(s, g)
	return g, g.wait(ctx)
}

func newGrant(scopes []string) *grant { return &grant{scopes: scopes, done: make(chan struct{})} }

func (g *grant) wait(ctx context.Context) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *wallet) grant(s *session, scope string) (g *grant, fresh bool) {
	w.mu.Lock()
	if g := w.grants[scope]; g != nil && g.counts() {
		w.mu.Unlock()
		return g, false
	}
	g = newGrant([]string{scope})
	w.grants[scope] = g
	w.mu.Unlock()
	w.start(s, g)
	return g, true
}

// forget makes the next call for scope fetch a token for it alone.
func (w *wallet) forget(g *grant, scope string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.grants[scope] == g {
		delete(w.grants, scope)
	}
}

// dontShare notes that the server does not honour many scopes, and forgets what it
// pretended to grant.
func (w *wallet) dontShare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.share = 1
	for scope, g := range w.grants {
		if g.shared() {
			delete(w.grants, scope)
		}
	}
}

// prepare begins to fetch tokens for scopes, ahead of the probes that need them. It
// returns false if the registry does not answer.
func (w *wallet) prepare(ctx context.Context, scopes []string) bool {
	s, err := w.endpoint.open(ctx)
	if err != nil {
		return false
	}
	if !w.needed(s) {
		return true
	}
	grants := w.plan(scopes)
	started := w.endpoint.view.spawn(func() {
		for _, g := range grants {
			w.fetch(w.endpoint.view.ctx, s, g)
		}
	})
	if !started {
		w.drop(grants)
	}
	return true
}

// needed reports whether requests in session s carry a token that has to be
// fetched.
func (w *wallet) needed(s *session) bool {
	return s.challenge.scheme == "bearer"
}

// plan enters grants for those of scopes that have none, in this order, many
// scopes each. Whoever needs one of them waits for it from now on.
func (w *wallet) plan(scopes []string) []*grant {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.share == 1 {
		return nil // probes fetch their own
	}
	var grants []*grant
	length := 0
	for _, scope := range scopes {
		if g := w.grants[scope]; g != nil && g.counts() {
			continue
		}
		last := len(grants) - 1
		if last < 0 || len(grants[last].scopes) == w.share || length+len(scope) > maxScopes {
			grants = append(grants, newGrant(nil))
			last, length = len(grants)-1, 0
		}
		grants[last].scopes = append(grants[last].scopes, scope)
		length += len(scope)
		w.grants[scope] = grants[last]
	}
	return grants
}

func (w *wallet) start(s *session, g *grant) {
	started := w.endpoint.view.spawn(func() { w.fetch(w.endpoint.view.ctx, s, g) })
	if !started {
		w.drop([]*grant{g})
	}
}

// drop gives up grants that nobody will fetch, because the view has ended.
func (w *wallet) drop(grants []*grant) {
	for _, g := range grants {
		g.err = w.endpoint.view.ctx.Err()
		close(g.done)
	}
}

// fetch fetches g when it is its turn.
func (w *wallet) fetch(ctx context.Context, s *session, g *grant) {
	defer close(g.done)
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		g.err = ctx.Err()
		return
	}
	if cause := w.endpoint.breaker.open(); cause != nil {
		g.err = cause
		return
	}
	t, err := (&tokenRequest{w.endpoint, s, w.credential, g.scopes}).fetch(ctx)
	g.token, g.err, g.until = t, err, time.Now().Add(t.life-t.life/10)
	if err != nil {
		g.until = time.Now().Add(grudge)
		w.refused(g)
	}
}

// refused learns from a token that was not granted. Without its token server a
// registry is as good as dead; unless it only dislikes being asked for so much.
func (w *wallet) refused(g *grant) {
	var f *failure
	if !errors.As(g.err, &f) {
		return
	}
	answered := f.status >= 400 && f.status < 500 && f.load == fine
	switch {
	case g.shared() && answered:
		w.dontShare()
	case f.presence == policy.Unreachable && !answered:
		w.endpoint.down(f, true)
	}
}
