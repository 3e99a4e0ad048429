package causes

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Remedy is a command, with its effect.
type Remedy struct {
	Command string
	Effect  string
	// ReadOnly says that the command shows something, and changes nothing.
	ReadOnly bool
}

// look is a Remedy that changes nothing.
func look(command, effect string) Remedy {
	return Remedy{command, effect + "; nothing is changed", true}
}

// act is a Remedy that changes something.
func act(command, effect string) Remedy { return Remedy{Command: command, Effect: effect} }

// in begins a command about an object in a namespace.
func in(namespace string) string { return "oc -n " + text.Argument(namespace) + " " }

// mcoNamespace is that of MCO's pods.
const mcoNamespace = "openshift-machine-config-operator"

// inMCO begins a command about objects of MCO.
const inMCO = "oc -n " + mcoNamespace + " "

// mayWorsen reports whether r says of itself that it may make things worse, or is a last resort.
func mayWorsen(r Remedy) bool {
	return strings.HasPrefix(r.Effect, "may make it worse") || strings.HasPrefix(r.Effect, "last resort")
}

// daemonPod shows the daemon of a node.
func daemonPod(node string) Remedy {
	return look(inMCO+"get pod -l k8s-app=machine-config-daemon --field-selector spec.nodeName="+text.Argument(node), "names the daemon's pod on the node, whose log has the whole message")
}

// forceCommand makes MCO's daemon write everything anew (MachineConfigDaemonForceFile in MCO's
// pkg/daemon/constants/constants.go).
func forceCommand(node string) string {
	return fmt.Sprintf("oc debug node/%s -- chroot /host touch /run/machine-config-daemon-force", text.Argument(node))
}
