package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Rendered reads the rendered config of that name from the API server. The name may come
// from an annotation, and be anything. The error is rollout.ErrGone if there is none of that name.
// It is read as a list of one, which requires no right beyond that to follow MachineConfigs.
func (c *Inventory) Rendered(ctx context.Context, name string) (*rollout.Rendered, error) {
	if !strings.HasPrefix(name, objects.RenderedPrefix) || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, fmt.Errorf("%q is not the name of a rendered config", name)
	}
	var list listOf[json.RawMessage]
	query := map[string]string{"fieldSelector": fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	if err := c.mirrors.read(ctx, machineConfigs, query, &list); err != nil {
		return nil, fmt.Errorf("reading MachineConfig %s: %w", name, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("MachineConfig %s: %w", name, rollout.ErrGone)
	}
	return objects.DecodeRendered(list.Items[0])
}
