package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

const (
	// rebootTime is how long a node that is being updated may be away: a large machine tests
	// its memory for a quarter of an hour.
	rebootTime = 20 * time.Minute
	// updateTime is how long an update may take without a refused drain. MCO's daemon gives up on a
	// drain after as long.
	updateTime = time.Hour
)

// nodeCauses find what holds up a node that is not done. The first that reports something ends the
// search: those further down would follow from it.
var nodeCauses = []func(*diagnosis, *status.Pool, *status.Node) bool{
	// Without its kubelet no pod on the node starts or ends, nor does the daemon's.
	(*diagnosis).notReady,
	// All that follows goes by what the daemon says, or waits for what it does.
	(*diagnosis).daemonDown,
	// A daemon that lacks a config is degraded, or never asks for a drain.
	(*diagnosis).configMissing,
	// After an hour the daemon gives up on a drain, and says no more than that. The refusal of
	// evictions is nearer to the cause.
	(*diagnosis).drainRefused,
	// These two are the last words of a daemon, or that there are none: a node is in one of these states.
	(*diagnosis).degraded,
	(*diagnosis).silent,
	// By now nothing explains what takes so long.
	(*diagnosis).tooLong,
}

func (d *diagnosis) node(p *status.Pool, n *status.Node) {
	for _, isFound := range nodeCauses {
		if isFound(d, p, n) {
			return
		}
	}
}

// drainRefused is about a drain that is under way, or that the daemon gave up on.
func (d *diagnosis) drainRefused(p *status.Pool, n *status.Node) bool {
	switch {
	case n.State == status.NodeDegraded && n.IsDraining():
		return d.draining(p, n, "its drain did not end within an hour, and is tried again")
	case n.State == status.NodeDraining:
		return d.draining(p, n, "")
	default:
		return false
	}
}

// silent is about a node that nothing is known of.
func (d *diagnosis) silent(p *status.Pool, n *status.Node) bool {
	if n.State != status.NodeSilent {
		return false
	}
	d.add(HoldUp{
		Pool: p.Name, Node: n.Name, subject: "silent", Cause: DaemonDown, Unexplained: true,
		Chain:    chain(fmt.Sprintf("node %s has not been reported on", n.Name), "its machine-config-daemon has written none of its annotations, or not all"),
		Remedies: []Remedy{daemonPod(n.Name)},
	})
	return true
}

// tooLong is about an update that takes too long for no reason that is known.
func (d *diagnosis) tooLong(p *status.Pool, n *status.Node) bool {
	if !n.IsUnderWay() || !d.longAgo(n.Since, updateTime) {
		return false
	}
	d.add(HoldUp{
		Pool: p.Name, Node: n.Name, subject: "long",
		Chain:    chain(fmt.Sprintf("node %s %s", n.Name, n.State), "its update began "+status.When(*n.Since, d.Now)+", and nothing that is known holds it up"),
		Remedies: []Remedy{daemonPod(n.Name), look("oc describe node "+text.Argument(n.Name), "shows what runs there, and its events")},
	})
	return true
}

// daemonDown is about a node without a daemon.
func (d *diagnosis) daemonDown(p *status.Pool, n *status.Node) bool {
	const name = "machine-config-daemon"
	if !d.hasMCOPods() {
		return false
	}
	var pods []*rollout.Pod
	for _, pod := range d.PodsOn[n.Name] {
		if pod.Namespace == mcoNamespace && pod.Spec != nil && pod.Spec.Labels["k8s-app"] == name {
			pods = append(pods, pod)
		}
	}
	if slices.ContainsFunc(pods, isReady) {
		return false
	}
	h := HoldUp{
		Cause: DaemonDown, Pool: p.Name, Node: n.Name, subject: "none",
		Chain:    chain(fmt.Sprintf("node %s %s", n.Name, n.State), "its "+name+" does not run"),
		Remedies: []Remedy{daemonPod(n.Name)},
	}
	for _, pod := range pods {
		why := d.unready(pod)
		h.subject = why.subject
		h.explain(why)
	}
	if len(pods) == 0 {
		h.because("DaemonSet " + name + " has no pod there")
		h.Remedies = append(h.Remedies,
			look(inMCO+"describe daemonset "+name, "shows its events: a quota, a taint or a webhook may keep it from making the pod"),
			act(inMCO+"rollout restart daemonset "+name, "restarts its pods one at a time; nodes and workloads keep running"))
	}
	d.add(h)
	return true
}

// notReady is about a node whose kubelet does not say that it is ready. A node that is being
// updated may reboot.
func (d *diagnosis) notReady(p *status.Pool, n *status.Node) bool {
	i := slices.IndexFunc(n.Conditions, func(c status.Condition) bool { return c.Type == "Ready" })
	if i < 0 {
		return false
	}
	c := n.Conditions[i]
	if (n.State == status.NodeApplying || n.State == status.NodeUpdating) && !d.Now.IsZero() && !d.longAgo(c.Since, rebootTime) {
		return true // it reboots
	}
	h := HoldUp{
		Cause: NodeNotReady, Pool: p.Name, Node: n.Name, subject: strings.ReplaceAll(c.Reason+c.Message, n.Name, ""),
		Chain: chain(fmt.Sprintf("node %s is not ready", n.Name), fmt.Sprintf("its kubelet says: %s", cmp.Or(c.Message, c.Reason, "nothing"))),
	}
	d.Asks.Requests = true
	h.Remedies = append(h.Remedies, look("oc describe node "+text.Argument(n.Name), "shows its conditions and events"))
	for _, r := range d.Evidence.Requests {
		if r.Node == n.Name {
			h.Cause, h.subject = CertificatePending, ""
			h.because(fmt.Sprintf("it waits for a certificate: CertificateSigningRequest %s is not approved", r.Name))
			h.Remedies = append(h.Remedies, act("oc adm certificate approve "+text.Argument(r.Name), "lets the kubelet in again, if the request is its own: look at it first with oc describe csr"))
		}
	}
	h.Remedies = append(h.Remedies,
		look(fmt.Sprintf("ssh core@%s sudo journalctl -u kubelet -u crio --since -1h", text.Argument(n.Name)), "shows why, where the node can be reached"),
		act(fmt.Sprintf("ssh core@%s sudo systemctl restart crio kubelet", text.Argument(n.Name)), "starts them anew; what runs on the node goes on"))
	d.add(h)
	return true
}

// configMissing is about a node that needs a rendered config that is gone.
func (d *diagnosis) configMissing(p *status.Pool, n *status.Node) bool {
	which, missing := "currentConfig", n.Current
	if !d.isMissing(n, missing) {
		which, missing = "desiredConfig", n.Desired
	}
	if missing == "" || !d.isMissing(n, missing) {
		return false
	}
	h := HoldUp{
		Cause: ConfigMissing, Pool: p.Name, Node: n.Name, subject: missing,
		Chain: chain(
			fmt.Sprintf("node %s %s", n.Name, n.State),
			fmt.Sprintf("annotation %s names rendered config %s, which is gone: somebody has deleted it, and its daemon cannot tell what to change", which, missing),
		),
		Remedies: []Remedy{look("oc get machineconfig "+text.Argument(missing), "says whether it is there; if there is a backup of it, create it again, and the node goes on by itself")},
	}
	if n.Reason != "" {
		h.because("its daemon says: " + n.Reason)
	}
	target := text.Argument(p.Target)
	patch := fmt.Sprintf(`oc annotate node %s --overwrite machineconfiguration.openshift.io/desiredConfig=%s`, text.Argument(n.Name), target)
	switch {
	case p.Target == "" || p.Target == missing:
	case which == "desiredConfig":
		h.Remedies = append(h.Remedies, act(patch, "gives the node what its pool is to have; it is drained or rebooted if that asks for it"))
	default:
		h.Remedies = append(h.Remedies, act(
			patch+" machineconfiguration.openshift.io/currentConfig="+target+" && "+forceCommand(n.Name),
			"last resort: calls the node updated to what its pool is to have, and has the daemon write all of it anew. It overwrites whatever was changed on the node, and reboots it",
		))
	}
	d.add(h)
	return true
}

// isMissing reports whether a rendered config is known to be gone: it was asked for, or the
// daemon says so (newErrMissingMachineConfig in MCO's pkg/daemon/daemon.go).
func (d *diagnosis) isMissing(n *status.Node, config string) bool {
	if config == "" || d.Rendered[config] != nil {
		return false
	}
	return rollout.IsGone(d.Unread[config]) || n.State == status.NodeDegraded &&
		(strings.Contains(n.Reason, "missing MachineConfig "+config) || strings.Contains(n.Reason, fmt.Sprintf("%q not found", config)))
}
