package review

import (
	"context"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review/renderedconfig"
)

const (
	// maxCurrent bounds the rendered configs that are read. A pool has one, and one more
	// while it is updated; the annotations of nodes may name anything.
	maxCurrent = 32
	// currentTime bounds the time for reading new ones. MCO makes one for each pool and change.
	currentTime = 3 * time.Second
)

// Current keeps the rendered configs that nodes have from one review to the next.
type Current struct {
	reading chan struct{} // holds one value while none is being read
	configs renderedconfig.Configs
	routes  map[string]*mirrors.Table
}

// NewCurrent returns a Current that has read nothing.
func NewCurrent() *Current {
	c := &Current{reading: make(chan struct{}, 1)}
	c.reading <- struct{}{}
	return c
}

// configsOf returns the rendered configs that nodes of through have. One that cannot be read in time
// has no routes.
func (c *Current) configsOf(ctx context.Context, source renderedconfig.Source, through *rollout.Cluster) []evidence.CurrentConfig {
	all := through.CurrentConfigs()
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, currentTime)
	defer cancel()
	current := make([]evidence.CurrentConfig, len(all))
	for i := range all {
		current[i].CurrentConfig = all[i]
	}
	select {
	case <-c.reading:
	case <-ctx.Done():
		return current
	}
	defer func() { c.reading <- struct{}{} }()
	routes := c.read(ctx, source, all)
	for i := range current {
		current[i].Routes = routes[current[i].Name]
	}
	return current
}

// read returns the routes of those of all that could be read.
func (c *Current) read(ctx context.Context, source renderedconfig.Source, all []rollout.CurrentConfig) map[string]*mirrors.Table {
	var names []string
	for i := range all {
		if (i == 0 || all[i].Name != all[i-1].Name) && len(names) < maxCurrent {
			names = append(names, all[i].Name)
		}
	}
	configs, _, _ := c.configs.Read(ctx, source, names, time.Now())
	before := c.routes
	c.routes = map[string]*mirrors.Table{}
	for name, config := range configs {
		table, known := before[name]
		if !known {
			table, _ = config.Routes() // nil for one that nodes cannot read either
		}
		c.routes[name] = table
	}
	return c.routes
}
