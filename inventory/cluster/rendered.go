package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Rendered reads the rendered config of that name from the API server. The name may come
// from an annotation, and be anything.
func (c *Inventory) Rendered(ctx context.Context, name string) (*rollout.Rendered, error) {
	if !strings.HasPrefix(name, objects.RenderedPrefix) || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, fmt.Errorf("%q is not the name of a rendered config", name)
	}
	var data json.RawMessage
	if err := c.mirrors.read(ctx, machineConfigs+"/"+name, nil, &data); err != nil {
		return nil, fmt.Errorf("reading MachineConfig %s: %w", name, err)
	}
	if data == nil {
		return nil, fmt.Errorf("there is no MachineConfig %s", name)
	}
	return objects.DecodeRendered(data)
}
