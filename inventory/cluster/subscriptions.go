package cluster

import (
	"context"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

const subscriptionsPath = "/apis/operators.coreos.com/v1alpha1/subscriptions"

// Subscriptions reads OLM's Subscriptions from the API server; none of a cluster without OLM. They are
// not followed, as no review depends on them.
func (c *Inventory) Subscriptions(ctx context.Context) ([]*objects.Subscription, error) {
	return readAll[objects.Subscription](ctx, c.mirrors, subscriptionsPath)
}
