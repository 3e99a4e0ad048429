// Package renderedconfig reads the MachineConfigs that MCO rendered for pools, and remembers them.
package renderedconfig

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A Source reads rendered configs. *cluster.Inventory and *snapshot.Snapshot are such.
type Source interface {
	// Rendered returns the rendered config of that name, which may be anything. The error is
	// rollout.ErrGone if there is none.
	Rendered(ctx context.Context, name string) (*rollout.Rendered, error)
}

const (
	// atOnce is small, as each may have a megabyte.
	atOnce = 4
	// retryFirst and retryMost are how long one that could not be read is not asked for again,
	// at first and in the end: a node may name one that there is not.
	retryFirst, retryMost = 5 * time.Second, 5 * time.Minute
)

// Configs remembers the rendered configs that were read last. MCO never changes one: its name
// has a hash of its content. The zero value is ready.
type Configs struct {
	configs map[string]*rollout.Rendered
	unread  map[string]error
	retries map[string]retry // of unread
}

// A retry is the time at which a config is asked for again, and the wait before it.
type retry struct {
	at    time.Time
	after time.Duration
}

func (r retry) next(now time.Time) retry {
	after := min(max(2*r.after, retryFirst), retryMost)
	return retry{now.Add(after), after}
}

// Read returns the configs of these names, and why others could not be read. It forgets all
// others. The error is that of ctx.
func (c *Configs) Read(ctx context.Context, source Source, names []string, now time.Time) (map[string]*rollout.Rendered, map[string]error, error) {
	before := *c
	*c = Configs{map[string]*rollout.Rendered{}, map[string]error{}, map[string]retry{}}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, name := range names {
		if config, ok := before.configs[name]; ok {
			mu.Lock()
			c.configs[name] = config
			mu.Unlock()
			continue
		}
		if err, ok := before.unread[name]; ok && now.Before(before.retries[name].at) {
			mu.Lock()
			c.unread[name], c.retries[name] = err, before.retries[name]
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			config, err := source.Rendered(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.unread[name], c.retries[name] = err, before.retries[name].next(now)
			} else {
				c.configs[name] = config
			}
			return nil
		})
	}
	return c.configs, c.unread, errors.Join(group.Wait(), context.Cause(ctx))
}
