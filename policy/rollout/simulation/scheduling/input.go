package scheduling

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Input is a change and the cluster that it is made in. It is only read.
type Input struct {
	Cluster rollout.Cluster
	// Forecast is that of the change for Cluster (rollout.NewForecast).
	Forecast rollout.Forecast
	// Pull says whether nodes of a pool can pull an image for a pod of a namespace, by the route
	// that they have before the change, or after it if updated is set. Pool is "" for nodes of
	// no pool. It is asked once for each combination that matters; nil knows nothing.
	// PullUnknown counts as a pull that fails.
	Pull func(image, namespace, pool string, updated bool) rollout.Pull
	// OwnPolicies are the namespaces whose pods are held to a signature policy of their own.
	OwnPolicies []string
	// Now is when the cluster was read, by which a pod that is being deleted is past its time to
	// end; the zero Time if that is not known.
	Now time.Time
	// Stop is asked every few milliseconds whether to give up; nil never gives up.
	Stop func() bool
}
