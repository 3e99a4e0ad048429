package progress

import (
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// Stage is the position of a node on its way to the config of its pool.
type Stage string

// The stages, in the order in which a node goes through them, and two that are out of it.
const (
	Waiting   Stage = "waiting"   // for its turn
	Updating  Stage = "updating"  // taken, and not drained
	Draining  Stage = "draining"  // its pods are evicted
	Drained   Stage = "drained"   // and being updated
	Rebooting Stage = "rebooting" // or seems to be
	Done      Stage = "done"
	Degraded  Stage = "degraded" // its daemon gave up
	Unknown   Stage = "unknown"  // its daemon has not reported
)

// Stages are all of them.
var Stages = []Stage{Waiting, Updating, Draining, Drained, Rebooting, Done, Degraded, Unknown}

// rank tells how far a stage is, -1 for those out of the order.
func (s Stage) rank() int { return slices.Index(Stages[:6], s) }

// isUnderWay reports whether MCO has taken the node and not finished with it.
func (s Stage) isUnderWay() bool {
	return s == Updating || s == Draining || s == Drained || s == Rebooting
}

// stageOf returns the stage of a node that is not done.
func stageOf(n *status.Node, p *status.Pool) Stage {
	switch n.State {
	case status.NodeWaits:
		return Waiting
	case status.NodeDraining:
		return Draining
	case status.NodeApplying, status.NodeUpdating:
		if reboots(n, p) {
			return Rebooting
		}
		if n.State == status.NodeApplying {
			return Drained
		}
		return Updating
	case status.NodeDegraded:
		return Degraded
	case status.NodeUnavailable:
		return Done
	default:
		return Unknown
	}
}

// reboots reports whether a node that is being updated is away for it: by its
// MachineConfigNode or, where that does not tell, because it is not ready and what it gets
// takes a reboot.
func reboots(n *status.Node, p *status.Pool) bool {
	return slices.ContainsFunc(n.Conditions, func(c status.Condition) bool {
		switch c.Type {
		case string(mcfgv1.MachineConfigNodeUpdateRebooted):
			return c.Status == string(corev1.ConditionUnknown)
		case string(corev1.NodeReady):
			return strings.Contains(p.Action, "reboots")
		default:
			return false
		}
	})
}
