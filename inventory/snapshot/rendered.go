package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A renderedContent is one that the dump has, or why it could not be read.
type renderedContent struct {
	config *rollout.Rendered
	err    error
}

// renderedContent keeps a MachineConfig that MCO rendered for a pool.
func (r *reader) renderedContent(name string, data []byte) {
	if !strings.HasPrefix(name, objects.RenderedPrefix) {
		return
	}
	if r.contents == nil {
		r.contents = map[string]renderedContent{}
	}
	config, err := objects.DecodeRendered(data)
	r.contents[name] = renderedContent{config, err}
}

// Rendered returns the rendered config of that name. The error says that the dump does not
// have it, or what in it cannot be read.
func (s *Snapshot) Rendered(_ context.Context, name string) (*rollout.Rendered, error) {
	r, ok := s.contents[name]
	if !ok {
		return nil, fmt.Errorf("the dump has no MachineConfig %s", name)
	}
	return r.config, r.err
}
