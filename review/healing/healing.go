// Package healing copies back what mirrors have lost, if the configuration asks for it.
//
//	h, err := healing.New(healing.Options{...})
//	h.Configure(settings)
//	go h.Run(leading)       // in the leader, as long as it is one
//	h.Seen(plan, facts)     // in every replica: what mirrors hold
//	h.Lost(began, losses)   // in the leader: what they have lost
//
// It promises little, so that it can run unattended:
//
//   - An image is copied by its digest, byte for byte, from a place that nodes may pull it from by the same
//     route, to the mirror that they ask first. Tags are neither moved nor created, signatures among them.
//   - What was not seen at a mirror since the process began was not lost there: a mirror that never had all
//     images is not filled.
//   - A budget bounds the bytes sent and the requests made in any hour. It is written down before it is spent,
//     in a Lease, together with what was copied. Where that cannot be written, nothing is copied.
//   - A registry that loses again what was copied there gets nothing more until a person says so.
//   - No fact is changed: a review asks the registry whether the image is there, as ever.
package healing

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/report"
)

// Settings say whether something is copied, and how much.
type Settings struct {
	Enabled bool
	// PushSecret is the name of the Secret with the credentials to push with.
	PushSecret string
	Limit      Limit
}

// DefaultPushSecret is the name of the Secret that the manifests let the guard read.
const DefaultPushSecret = "mirrorset-guard-push"

// Options are what New needs.
type Options struct {
	// Registries are asked as this Client asks them, with the nodes' credentials to read images.
	Registries *registry.Client
	// Credentials reads those to push with from the Secret of a name. Its errors hold no secret.
	Credentials func(ctx context.Context, secret string) (registry.Credentials, error)
	// Lease is where the state is kept.
	Lease *Lease
	// Outlet is where news go.
	Outlet report.Outlet
	// Record records what was done.
	Record func(auditv1alpha1.Healing)
	// Log receives what goes wrong. The zero value discards it.
	Log logr.Logger
	// Metrics is where the metrics are registered, nil for nowhere.
	Metrics prometheus.Registerer
}

// A Healer copies back what mirrors have lost. It is safe for concurrent use; Run must not run twice at a time.
type Healer struct {
	options  Options
	metrics  *metrics
	settings atomic.Pointer[Settings]

	mu     sync.Mutex
	held   map[placeID]struct{} // places of the configuration in force that were seen to hold their images
	losses *losses              // not looked at yet
	cancel context.CancelFunc   // of what is under way
	news   chan struct{}

	work work // of Run
	own  ownSpending
}

// losses are those of a round of the standing verification.
type losses struct {
	began time.Time
	all   []policy.Standing
}

// New returns a Healer that is off. It is an error if its metrics are registered already.
func New(o Options) (*Healer, error) {
	h := &Healer{options: o, metrics: newMetrics(), held: map[placeID]struct{}{}, news: make(chan struct{}, 1)}
	h.settings.Store(&Settings{})
	return h, h.metrics.register(o.Metrics)
}

// Configure puts s in force. What is under way by other settings ends.
func (h *Healer) Configure(s Settings) {
	if before := h.settings.Swap(&s); *before == s {
		return
	}
	h.metrics.configured(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cancel != nil {
		h.cancel()
	}
}

// Seen notes which places of the plan of the configuration in force hold their images, and forgets those that it does
// not name any more.
func (h *Healer) Seen(p policy.Plan, facts policy.Facts) {
	held := map[placeID]struct{}{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range p.Reroutes {
		for _, l := range p.Reroutes[k].After.Mirrors() {
			id := idOf(l)
			_, before := h.held[id]
			if f, ok := facts[l]; before || ok && f.Presence == policy.Present {
				held[id] = struct{}{}
			}
		}
	}
	h.held = held
}

// Lost passes on which images are lost, as more than one round has found, by a round that began at a time.
// It replaces what was passed on before.
func (h *Healer) Lost(began time.Time, all []policy.Standing) {
	h.mu.Lock()
	h.losses = &losses{began, all}
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default: // which are not looked at yet
	}
}

// Run copies back what is lost until ctx ends. Only one process should do so at a time.
func (h *Healer) Run(ctx context.Context) {
	h.work = newWork()
	h.metrics.nothing()
	defer h.metrics.idle()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.news:
			h.protected(ctx)
		}
	}
}

// protected looks at the latest losses. A panic ends the round, and nothing else.
func (h *Healer) protected(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			h.options.Log.Error(fmt.Errorf("panic: %v\n%s", p, debug.Stack()), "Could not copy back what is lost")
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	latest := h.losses
	h.losses, h.cancel = nil, cancel
	h.mu.Unlock()
	settings := *h.settings.Load()
	if latest == nil {
		return
	}
	if !settings.Enabled {
		h.work = newWork()
		h.metrics.nothing()
		return
	}
	h.round(ctx, settings, *latest)
}

// heldBefore reports whether a place was seen to hold its image since the process began, or since the configuration
// in force last came to name the place.
func (h *Healer) heldBefore(id placeID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, held := h.held[id]
	return held
}
