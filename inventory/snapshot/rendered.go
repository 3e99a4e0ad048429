package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A renderedConfig is one that the dump has, or why it could not be read.
type renderedConfig struct {
	config *rollout.Rendered
	err    error
}

// renderedConfig keeps a MachineConfig that MCO rendered for a pool.
func (r *reader) renderedConfig(name string, data []byte) {
	if !strings.HasPrefix(name, objects.RenderedPrefix) {
		return
	}
	if r.rendered == nil {
		r.rendered = map[string]renderedConfig{}
	}
	config, err := objects.DecodeRendered(data)
	r.rendered[name] = renderedConfig{config, err}
}

// Rendered returns the rendered config of that name. The error says that the dump does not
// have it, or what in it cannot be read.
func (s *Snapshot) Rendered(_ context.Context, name string) (*rollout.Rendered, error) {
	r, ok := s.rendered[name]
	if !ok {
		return nil, fmt.Errorf("the dump has no MachineConfig %s", name)
	}
	return r.config, r.err
}
