package rollout

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// By these annotations MCO and its daemon on a node talk to each other
// (pkg/daemon/constants/constants.go).
const (
	currentConfig = "machineconfiguration.openshift.io/currentConfig"
	desiredConfig = "machineconfiguration.openshift.io/desiredConfig"
	currentImage  = "machineconfiguration.openshift.io/currentImage"
	desiredImage  = "machineconfiguration.openshift.io/desiredImage"
	daemonState   = "machineconfiguration.openshift.io/state"
	daemonReason  = "machineconfiguration.openshift.io/reason"
	desiredDrain  = "machineconfiguration.openshift.io/desiredDrain"
	lastDrain     = "machineconfiguration.openshift.io/lastAppliedDrain"
)

// Report is the conversation of MCO's controllers and its daemon on a node, in the annotations of the
// node. It may hold anything: everyone who may change a node may write there.
type Report struct {
	// Current and Desired are the names of rendered configs, "" where there is none.
	Current, Desired string
	// State is the daemon's ("Done", "Working", "Degraded"), and Reason its words for it.
	State, Reason string
	// Done says that the node has the config and the image that it should have.
	Done bool
	// GaveUp says that the daemon gave up, on the desired config or on the one that the node has.
	GaveUp bool
	// DrainAsked is what the daemon last asked the drain controller for, DrainDone what that
	// last did: "drain" or "uncordon", a hyphen, and the name of a rendered config.
	DrainAsked, DrainDone string
}

// ReportOf returns the annotations of a node as a Report.
func ReportOf(node *corev1.Node) Report {
	a := node.Annotations
	return Report{
		Current: a[currentConfig], Desired: a[desiredConfig], State: a[daemonState], Reason: a[daemonReason],
		Done: isDone(node), GaveUp: hasGivenUp(node),
		DrainAsked: a[desiredDrain], DrainDone: a[lastDrain],
	}
}

// AskedToDrain reports whether the daemon last asked for a drain, and not for its end.
func (r Report) AskedToDrain() bool { return strings.HasPrefix(r.DrainAsked, "drain-") }

// IsDraining reports whether it did, and the drain is not done.
func (r Report) IsDraining() bool { return r.AskedToDrain() && r.DrainDone != r.DrainAsked }

// IsWindows reports whether a node runs Windows, which MCO has no part in.
func IsWindows(node *corev1.Node) bool { return node.Labels[corev1.LabelOSStable] == "windows" }

// unavailable restates IsUnavailableForUpdate (pkg/controller/common/layered_node_state.go)
// with its reason, "" for a node that is available. Updating is set where the reason is an
// update that is under way.
//
// A node that is not done counts, be it as ready as can be; one that failed does not, so
// that it can be given another config.
func unavailable(node *corev1.Node) (why string, updating bool) {
	done, gaveUp := isDone(node), hasGivenUp(node)
	updating = !done && !gaveUp && node.Annotations[currentConfig] != "" && node.Annotations[daemonState] != ""
	if why := unready(node); why != "" {
		return why, updating
	}
	switch {
	case done || isFailing(node):
		return "", false
	case updating:
		return "is being updated", true
	case gaveUp: // it has the config, and somebody changed a file
		return "is " + strings.ToLower(node.Annotations[daemonState]) + " although it has its config", false
	default:
		return "has not been reported on by its machine-config-daemon", false
	}
}

// unready restates CheckNodeReady of that file.
func unready(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue:
			return "is not ready"
		case c.Type == corev1.NodeDiskPressure && c.Status != corev1.ConditionFalse,
			c.Type == corev1.NodeNetworkUnavailable && c.Status != corev1.ConditionFalse:
			return fmt.Sprintf("reports %s %s", c.Type, c.Status)
		}
	}
	if node.Spec.Unschedulable {
		return "is cordoned"
	}
	return ""
}

// isDone restates IsNodeDone: the node has the config that it should have, and the image if
// it has one of its own.
func isDone(node *corev1.Node) bool {
	a := node.Annotations
	wantsImage, wanted := a[desiredImage]
	hasImage, had := a[currentImage]
	imageDone := !wanted && !had || wantsImage != "" && wantsImage == hasImage
	return a[currentConfig] != "" && a[currentConfig] == a[desiredConfig] && imageDone && a[daemonState] == "Done"
}

// isFailing restates IsNodeMCDFailing: the daemon could not apply the config.
func isFailing(node *corev1.Node) bool {
	a := node.Annotations
	return a[currentConfig] != a[desiredConfig] && hasGivenUp(node)
}

func hasGivenUp(node *corev1.Node) bool {
	state := node.Annotations[daemonState]
	return state == "Degraded" || state == "Unreconcilable"
}
