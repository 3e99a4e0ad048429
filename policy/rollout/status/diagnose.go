package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A Diagnosis says why nodes and pools do not move.
type Diagnosis struct {
	// Findings are those of the cluster first, then those of pools, then those of nodes, in
	// the order of a Status. There are none where nothing is held up.
	Findings []Finding `json:"findings"`
	// Notes say what is not known.
	Notes []string `json:"notes,omitempty"`
}

// A Finding is what holds a node or a pool up.
type Finding struct {
	// Pool is "" for what concerns all; Node is "" for what concerns a pool.
	Pool string `json:"pool,omitempty"`
	Node string `json:"node,omitempty"`
	// Chain leads from the symptom to the cause, a link each, with its evidence.
	Chain []string `json:"chain"`
	// Unexplained is set where the chain ends before a cause.
	Unexplained bool `json:"unexplained,omitempty"`
	// Remedies are what can be done, the safest first.
	Remedies []Remedy `json:"remedies"`
}

// A Remedy is something to do, with the command for it, and what that brings about.
type Remedy struct {
	Command string `json:"command"`
	Effect  string `json:"effect"`
}

// Diagnose says why the nodes and pools of a cluster do not move, as far as its objects show
// it. Set is the mirror configuration in force.
func Diagnose(in Input, set mirrors.Set) Diagnosis {
	s := Of(in)
	d := diagnosis{Input: in, budgets: newBudgets(in.Cluster.Budgets)}
	d.Diagnosis = Diagnosis{Findings: []Finding{}, Notes: s.Notes}
	for _, resource := range []string{"pods", "poddisruptionbudgets"} {
		if slices.Contains(in.Cluster.Unknown, resource) {
			d.Notes = append(d.Notes, resource+" could not be read: what holds drains up is not known")
		}
	}
	if _, err := mirrors.Resolve(set); err != nil {
		d.add(Finding{
			Chain:    []string{"MCO renders nothing for any pool", "it rejects the mirror objects: " + text.Line(err.Error())},
			Remedies: []Remedy{{"mirrorset-guard render", "says which objects it rejects; nothing is changed"}},
		})
	}
	for i := range s.Pools {
		d.pool(&s.Pools[i])
	}
	return d.Diagnosis
}

// A diagnosis is a Diagnosis in the making.
type diagnosis struct {
	Diagnosis
	Input
	budgets budgets
}

func (d *diagnosis) add(f Finding) {
	f.Chain = printable(f.Chain)
	d.Findings = append(d.Findings, f)
}

func (d *diagnosis) pool(p *Pool) {
	known := len(d.Findings)
	defer func() {
		if p.State == PoolDegraded && len(d.Findings) == known {
			d.add(Finding{
				Pool: p.Name, Chain: []string{fmt.Sprintf("pool %s is degraded", p.Name), p.Trouble()}, Unexplained: true,
				Remedies: []Remedy{{"oc describe machineconfigpool " + arg(p.Name), "shows all of its conditions; nothing is changed"}},
			})
		}
	}()
	switch {
	case p.Paused != nil && p.From != "":
		d.add(Finding{
			Pool: p.Name, Chain: []string{fmt.Sprintf("pool %s does not get %s", p.Name, p.Target), p.Paused.Lines[0]},
			Remedies: []Remedy{{"mirrorset-guard rollout resume " + arg(p.Name), "says what waits, and asks before its nodes are updated"}},
		})
	case p.Held != "":
		d.held(p)
	}
	for _, c := range p.Conditions {
		if c.Type == "RenderDegraded" {
			d.add(Finding{
				Pool: p.Name, Chain: []string{fmt.Sprintf("MCO renders no config for pool %s", p.Name), cmp.Or(c.Message, c.Reason, "it does not say why")},
				Remedies: []Remedy{
					{"mirrorset-guard render", "says whether the mirror objects are the reason; nothing is changed"},
					{"oc -n openshift-machine-config-operator logs deploy/machine-config-controller", "shows the whole message; nothing is changed"},
				},
			})
		}
	}
	for i := range p.Nodes {
		d.node(p, &p.Nodes[i])
	}
}

// held is about a pool of which no node is taken.
func (d *diagnosis) held(p *Pool) {
	f := Finding{Pool: p.Name, Chain: []string{fmt.Sprintf("no node of pool %s is taken", p.Name), p.Held}}
	for _, n := range p.Nodes {
		if n.Cordoned != nil && (n.State == NodeWaits || n.State == NodeUnavailable) {
			f.Chain = append(f.Chain, n.cordonedText())
			f.Remedies = append(f.Remedies, Remedy{"oc adm uncordon " + arg(n.Name), "lets pods go there again, and MCO take a node; ask who cordoned it"})
		}
	}
	f.Remedies = append(f.Remedies, Remedy{
		fmt.Sprintf(`oc patch machineconfigpool %s --type=merge -p '{"spec":{"maxUnavailable":2}}'`, arg(p.Name)),
		"lets MCO take more nodes at once, from now on",
	})
	d.add(f)
}

func (n *Node) cordonedText() string {
	if n.Cordoned.Since == nil {
		return fmt.Sprintf("node %s is cordoned; by whom is not recorded", n.Name)
	}
	return fmt.Sprintf("node %s is cordoned since %s by %s", n.Name, n.Cordoned.Since.Format("2006-01-02 15:04 MST"), n.Cordoned.By)
}

func (d *diagnosis) node(p *Pool, n *Node) {
	switch n.State {
	case NodeDegraded:
		d.degraded(p, n)
	case NodeDraining:
		d.draining(p, n)
	case NodeSilent:
		d.add(Finding{
			Pool: p.Name, Node: n.Name, Unexplained: true,
			Chain:    []string{fmt.Sprintf("node %s has not been reported on", n.Name), "its machine-config-daemon has written none of its annotations, or not all"},
			Remedies: []Remedy{{daemonPod(n.Name), "shows whether the daemon runs on the node; nothing is changed"}},
		})
	}
	for _, c := range n.Conditions {
		if c.Type == "Ready" {
			d.add(Finding{
				Pool: p.Name, Node: n.Name, Chain: []string{fmt.Sprintf("node %s is not ready", n.Name), fmt.Sprintf("its kubelet says: %s", cmp.Or(c.Message, c.Reason, "nothing"))},
				Remedies: []Remedy{
					{"oc describe node " + arg(n.Name), "shows its conditions and events; nothing is changed"},
					{fmt.Sprintf("ssh core@%s sudo journalctl -u kubelet -u crio --since -1h", arg(n.Name)), "shows why, where the node can be reached"},
				},
			})
		}
	}
}

func daemonPod(node string) string {
	return "oc -n openshift-machine-config-operator get pod -l k8s-app=machine-config-daemon --field-selector spec.nodeName=" + arg(node)
}

// degraded is about a node whose daemon gave up. Its words say why.
func (d *diagnosis) degraded(p *Pool, n *Node) {
	f := Finding{
		Pool: p.Name, Node: n.Name, Chain: []string{fmt.Sprintf("node %s is degraded", n.Name)},
		Remedies: []Remedy{{daemonPod(n.Name), "names the daemon's pod, whose log has the whole message; nothing is changed"}},
	}
	switch {
	case n.Reason == "":
		f.Unexplained = true
		f.Chain = append(f.Chain, "its daemon does not say why")
	case strings.Contains(n.Reason, "content mismatch for file"), strings.Contains(n.Reason, "unexpected on-disk state"):
		f.Chain = append(f.Chain, n.Reason, "a file on the node is not what its rendered config says: something other than MCO has changed it")
		f.Remedies = append(f.Remedies,
			Remedy{fmt.Sprintf("oc debug node/%s -- chroot /host cat FILE", arg(n.Name)), "shows the file named above; put back what MCO expects, or put the change into a MachineConfig"},
			Remedy{fmt.Sprintf("oc debug node/%s -- chroot /host touch /run/machine-config-daemon-force", arg(n.Name)), "last resort: overwrites whatever was changed on the node, drains it and reboots it"},
		)
	default:
		f.Chain = append(f.Chain, n.Reason)
	}
	d.add(f)
}

// draining is about a node that is being drained: which evictions are refused, and why.
func (d *diagnosis) draining(p *Pool, n *Node) {
	found := false
	for i := range d.Cluster.Pods {
		pod := &d.Cluster.Pods[i]
		if pod.Node != n.Name || pod.Static || pod.Owner.Kind == "DaemonSet" || pod.Deleted {
			continue
		}
		if r, refused := d.budgets.refuses(pod); refused {
			found = true
			d.refused(p, n, pod, r)
		}
	}
	if !found && n.Drain != nil {
		d.leftToDrain(p, n)
	}
}

// leftToDrain is about a drain that no budget holds up, as far as is known.
func (d *diagnosis) leftToDrain(p *Pool, n *Node) {
	var deleted []string
	for i := range d.Cluster.Pods {
		if pod := &d.Cluster.Pods[i]; pod.Node == n.Name && pod.Deleted {
			deleted = append(deleted, podName(pod))
		}
	}
	if len(deleted) == 0 {
		return // the drain goes on
	}
	d.add(Finding{
		Pool: p.Name, Node: n.Name, Unexplained: true,
		Chain:    []string{fmt.Sprintf("node %s is being drained", n.Name), fmt.Sprintf("pods are being deleted and have not ended: %s", text.Names(deleted, shown))},
		Remedies: []Remedy{{"oc describe node " + arg(n.Name), "shows what runs there; a pod may take its grace period, or wait for a finalizer or a volume"}},
	})
}

func podName(p *rollout.Pod) string { return p.Namespace + "/" + p.Name }

// refused is about a pod whose eviction is refused.
func (d *diagnosis) refused(p *Pool, n *Node, pod *rollout.Pod, r refusal) {
	f := Finding{Pool: p.Name, Node: n.Name, Chain: []string{
		fmt.Sprintf("node %s is being drained", n.Name), fmt.Sprintf("pod %s is not evicted: %s", podName(pod), r.why),
	}}
	var last []Remedy
	for i := range d.Cluster.Pods {
		other := &d.Cluster.Pods[i]
		if other == pod || other.Ready || other.Deleted || !r.covers(other) {
			continue
		}
		chain, remedies := d.unready(other)
		f.Chain, f.Remedies = append(f.Chain, chain...), append(f.Remedies, remedies...)
	}
	if len(f.Remedies) == 0 {
		f.Chain = append(f.Chain, "all pods that count for the budget are healthy: it leaves no room for a drain")
	}
	last = append(last,
		Remedy{fmt.Sprintf("oc -n %s get pdb %s -o yaml", arg(pod.Namespace), arg(r.budget)), "shows the budget: more replicas, or a budget that allows one disruption, let the drain go on"},
		Remedy{fmt.Sprintf("oc -n %s delete pod %s", arg(pod.Namespace), arg(pod.Name)), "last resort: goes around the budget, whose service may then be down"},
	)
	f.Remedies = append(f.Remedies, last...)
	d.add(f)
}

// unready says why a pod is not ready, and what can be done.
func (d *diagnosis) unready(p *rollout.Pod) ([]string, []Remedy) {
	again := Remedy{fmt.Sprintf("oc -n %s delete pod %s", arg(p.Namespace), arg(p.Name)), "makes another one in its place, which tries at once"}
	switch {
	case p.FailsToPull():
		return d.unpulled(p, again)
	case p.Node == "":
		return []string{fmt.Sprintf("pod %s is on no node: the scheduler has not placed it", podName(p))},
			[]Remedy{{fmt.Sprintf("oc -n %s describe pod %s", arg(p.Namespace), arg(p.Name)), "shows which constraint keeps it from each node; nothing is changed"}}
	case p.Failing != "":
		return []string{fmt.Sprintf("pod %s on %s does not start: %s", podName(p), p.Node, p.Failing)},
			[]Remedy{{fmt.Sprintf("oc -n %s logs %s -c %s --previous", arg(p.Namespace), arg(p.Name), arg(p.FailingContainer)), "shows why; nothing is changed"}}
	default:
		return []string{fmt.Sprintf("pod %s on %s is not ready", podName(p), p.Node)},
			[]Remedy{{fmt.Sprintf("oc -n %s describe pod %s", arg(p.Namespace), arg(p.Name)), "shows its probes and events; nothing is changed"}}
	}
}

func (d *diagnosis) unpulled(p *rollout.Pod, again Remedy) ([]string, []Remedy) {
	image := p.FailingImage()
	chain := []string{fmt.Sprintf("pod %s on %s cannot pull %s: %s", podName(p), p.Node, cmp.Or(image, "an image"), p.Failing)}
	route, unknown := RouteOn(d.Input, p.Node, image)
	if unknown != "" {
		chain = append(chain, "where it looks for the image is not known: "+unknown)
	} else {
		chain = append(chain, fmt.Sprintf("node %s looks for it at %s", p.Node, strings.Join(route, ", then ")))
	}
	remedies := []Remedy{}
	if len(route) > 1 && arg(route[0]) == route[0] { // else it is blocked
		remedies = append(remedies, Remedy{fmt.Sprintf("oc image mirror %s %s", arg(image), route[0]), "copies the image to the mirror, if it can still be had at its source; the pod then starts by itself"})
	}
	return chain, append(remedies, again)
}

// arg returns a name as an argument in a command that people copy to a shell: a dump may hold
// any name.
func arg(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._:/@", r)
	}
	if name != "" && !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return name
	}
	return "'" + strings.ReplaceAll(text.Line(name), "'", `'\''`) + "'"
}
