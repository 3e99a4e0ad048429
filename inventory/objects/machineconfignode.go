package objects

import (
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// stages are the conditions that say how far an update is.
var stages = []mcfgv1.StateProgress{
	mcfgv1.MachineConfigNodeUpdateExecuted, mcfgv1.MachineConfigNodeUpdatePostActionComplete, mcfgv1.MachineConfigNodeUpdateComplete,
	mcfgv1.MachineConfigNodeResumed, mcfgv1.MachineConfigNodeUpdateDrained, mcfgv1.MachineConfigNodeUpdateFiles, mcfgv1.MachineConfigNodeUpdateOS,
	mcfgv1.MachineConfigNodeUpdateFilesAndOS, mcfgv1.MachineConfigNodeImagePulledFromRegistry, mcfgv1.MachineConfigNodeUpdateCordoned,
	mcfgv1.MachineConfigNodeUpdateUncordoned, mcfgv1.MachineConfigNodeUpdateRebooted, mcfgv1.MachineConfigNodeNodeDegraded,
}

// TrimMachineConfigNode returns a MachineConfigNode with only its node and pool, when the node was last updated and
// to what; the progress of an update under way; and the PinnedImageSets that it holds. A node
// that is up to date and has none keeps no more than two conditions.
func TrimMachineConfigNode(n *mcfgv1.MachineConfigNode) *mcfgv1.MachineConfigNode {
	t := &mcfgv1.MachineConfigNode{ObjectMeta: names(n)}
	t.Spec.Node, t.Spec.Pool = n.Spec.Node, n.Spec.Pool
	t.Spec.ConfigVersion = n.Spec.ConfigVersion
	for _, c := range n.Status.Conditions {
		trimmed := metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime}
		switch mcfgv1.StateProgress(c.Type) {
		case mcfgv1.MachineConfigNodeUpdatePrepared, mcfgv1.MachineConfigNodeUpdated:
		case mcfgv1.MachineConfigNodePinnedImageSetsProgressing, mcfgv1.MachineConfigNodePinnedImageSetsDegraded:
			if len(n.Status.PinnedImageSets) == 0 {
				continue
			}
			trimmed.Message = text.OneLine(c.Message, maxReason)
		default:
			if c.Status == metav1.ConditionFalse || !slices.Contains(stages, mcfgv1.StateProgress(c.Type)) {
				continue
			}
			trimmed.Message = c.Message
		}
		t.Status.Conditions = append(t.Status.Conditions, trimmed)
	}
	t.Status.PinnedImageSets = slices.Clone(n.Status.PinnedImageSets)
	for i := range t.Status.PinnedImageSets {
		s := &t.Status.PinnedImageSets[i]
		s.LastFailedGenerationError = text.OneLine(s.LastFailedGenerationError, maxReason)
	}
	return t
}

// PinsOf returns what a MachineConfigNode, complete or trimmed, says of PinnedImageSets.
func PinsOf(n *mcfgv1.MachineConfigNode) rollout.NodePins {
	p := rollout.NodePins{Node: n.Spec.Node.Name, Pool: n.Spec.Pool.Name, Sets: n.Status.PinnedImageSets}
	if c := conditionOf(n, mcfgv1.MachineConfigNodePinnedImageSetsProgressing); c != nil && c.Status == metav1.ConditionFalse {
		p.Settled = c.LastTransitionTime.UTC()
	}
	if c := conditionOf(n, mcfgv1.MachineConfigNodePinnedImageSetsDegraded); c != nil {
		p.Works = c.Status == metav1.ConditionFalse
		p.Fails = c.Status == metav1.ConditionTrue
	}
	return p
}

func conditionOf(n *mcfgv1.MachineConfigNode, of mcfgv1.StateProgress) *metav1.Condition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == string(of) {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}
