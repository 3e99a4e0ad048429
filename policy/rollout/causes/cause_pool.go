package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/verify"
)

// pool is about a pool and its nodes.
func (d *diagnosis) pool(p *status.Pool) {
	known := len(d.HoldUps)
	switch {
	case p.State == status.PoolDeleted && p.From != "":
		d.deleted(p)
	case p.Paused != nil && p.From != "":
		d.add(HoldUp{
			Cause: PoolPaused, Pool: p.Name, Chain: chain(fmt.Sprintf("pool %s does not get %s", p.Name, p.Target), p.Paused.Lines[0]),
			Remedies: []Remedy{d.resume(p)},
		})
	case p.Held != "" && (p.Part != rollout.Stopped || !waitsForUnready(p)):
		d.held(p)
	}
	d.certificate(p)
	d.rendering(p)
	d.pinned(p)
	for i := range p.Left {
		d.node(p, &p.Left[i])
	}
	if len(d.HoldUps) == known {
		d.unexplained(p)
	}
}

// deleted is about a pool whose deletion does not end. Its nodes have to leave it first: its
// rendered configs go with it, and without those no node can be updated to another config.
func (d *diagnosis) deleted(p *status.Pool) {
	object := d.Cluster.Pool(p.Name)
	keeps := "something keeps it"
	if len(object.Finalizers) > 0 {
		keeps = "finalizers keep it until the controllers that set them remove them: " + text.Names(object.Finalizers, status.Shown)
	}
	h := HoldUp{
		Cause: PoolDeletion, Pool: p.Name, Chain: chain(fmt.Sprintf("pool %s does not get %s", p.Name, p.Target), "it is being deleted, and "+keeps),
		Remedies: []Remedy{look(fmt.Sprintf("oc get machineconfigpool %s -o yaml", text.Argument(p.Name)), "shows its finalizers and which nodes it selects")},
	}
	if selector := object.Spec.NodeSelector; len(p.Nodes) > 0 && selector != nil && len(selector.MatchLabels) == 1 && len(selector.MatchExpressions) == 0 {
		for key, value := range selector.MatchLabels {
			h.Remedies = append(h.Remedies, act(fmt.Sprintf("oc label node -l %s %s", text.Argument(key+"="+value), text.Argument(key+"-")),
				fmt.Sprintf("takes its %s out of the pool: if labelled as workers, they get what pool worker is to have, drained or rebooted if that asks for it", text.Count(len(p.Nodes), "node"))))
		}
	}
	h.Remedies = append(h.Remedies, act("oc patch machineconfigpool "+text.Argument(p.Name)+noFinalizers,
		"last resort, once it has no nodes and those have another config: the pool is gone at once with its rendered configs, and the controllers that set the finalizers do not clean up. A node that still has such a config is degraded then"))
	d.add(h)
}

func (d *diagnosis) resume(p *status.Pool) Remedy {
	return act("mirrorset-guard rollout resume "+text.Argument(p.Name), "says what waits, and asks before its nodes are updated")
}

// unexplained is about a pool that is not well for no reason that is known.
func (d *diagnosis) unexplained(p *status.Pool) {
	describe := look("oc describe machineconfigpool "+text.Argument(p.Name), "shows all of its conditions")
	switch {
	case p.State == status.PoolDegraded:
		d.add(HoldUp{Pool: p.Name, Chain: chain(fmt.Sprintf("pool %s is degraded", p.Name), p.Trouble()), Remedies: []Remedy{describe}})
	case p.State == status.PoolUpdating && !d.isFound(ControllerDown) && onlyWaits(p):
		d.add(HoldUp{
			Passing: true,
			Pool:    p.Name, Chain: chain(fmt.Sprintf("in pool %s %s, and none is being updated", p.Name, text.Plural(len(p.Left), "node waits", "nodes wait")), "nothing that is known keeps MCO from taking one"),
			Remedies: []Remedy{
				look(inMCO+"logs deployment/machine-config-controller -c machine-config-controller", "shows what it is at"), describe,
			},
		})
	}
}

// onlyWaits reports whether all that is left are nodes that wait.
func onlyWaits(p *status.Pool) bool {
	return len(p.Left) > 0 && !slices.ContainsFunc(p.Left, func(n status.Node) bool { return n.State != status.NodeWaits })
}

func (d *diagnosis) isFound(cause Cause) bool {
	return slices.ContainsFunc(d.HoldUps, func(h HoldUp) bool { return h.Cause == cause })
}

// held explains why MCO takes no node of a pool.
func (d *diagnosis) held(p *status.Pool) {
	cause, nodes := NodesUnavailable, p.Left
	if p.Part != rollout.Stopped { // a number or a file cannot be read
		cause, nodes = Unknown, nil
	}
	h := HoldUp{Cause: cause, Pool: p.Name, Chain: chain(fmt.Sprintf("no node of pool %s is taken", p.Name), p.Held)}
	for _, n := range nodes {
		if n.Cordoned != nil && (n.State == status.NodeWaits || n.State == status.NodeUnavailable) && len(h.Remedies) < status.Shown {
			h.because(cordonedText(&n))
			h.Remedies = append(h.Remedies, act("oc adm uncordon "+text.Argument(n.Name), "lets pods go there again, and MCO take a node; ask who cordoned it"))
		}
	}
	h.Remedies = append(h.Remedies, look("oc describe machineconfigpool "+text.Argument(p.Name), "shows its spec and its conditions"))
	d.add(h)
}

// waitsForUnready reports whether all nodes that keep MCO from taking another one are not ready:
// each has a hold-up of its own, which is nearer to the cause.
func waitsForUnready(p *status.Pool) bool {
	keep := slices.DeleteFunc(slices.Clone(p.Left), func(n status.Node) bool {
		return n.Unavailable == "" || n.State != status.NodeWaits && n.State != status.NodeUnavailable
	})
	return len(keep) > 0 && !slices.ContainsFunc(keep, func(n status.Node) bool {
		return !slices.ContainsFunc(n.Conditions, func(c status.Condition) bool { return c.Type == "Ready" })
	})
}

func cordonedText(n *status.Node) string {
	if n.Cordoned.Since == nil {
		return fmt.Sprintf("node %s is cordoned; by whom is not recorded", n.Name)
	}
	return fmt.Sprintf("node %s is cordoned since %s by %s", n.Name, n.Cordoned.Since.Format("2006-01-02 15:04 MST"), n.Cordoned.By)
}

// certificate is about a paused pool whose nodes lack a CA that was made anew meanwhile.
func (d *diagnosis) certificate(p *status.Pool) {
	if p.Paused == nil || p.Paused.Since == nil {
		return
	}
	for _, c := range d.Cluster.Certificates {
		if !strings.Contains(c.Subject, rollout.KubeletSigner) || c.NotBefore == nil || !c.NotBefore.After(*p.Paused.Since) {
			continue
		}
		d.add(HoldUp{
			Cause: CertificateWaits, Pool: p.Name,
			Chain: chain(
				fmt.Sprintf("nodes of pool %s get no new certificates", p.Name), p.Paused.Lines[0],
				fmt.Sprintf("the CA %s was made anew on %s, and they have the one from before: once that has expired, logs, exec and metrics fail there, and nodes may become NotReady",
					rollout.KubeletSigner, c.NotBefore.UTC().Format("2006-01-02")),
			),
			Remedies: []Remedy{d.resume(p)},
		})
		return
	}
}

// rendering is about a pool for which MCO does not render what the objects ask for.
func (d *diagnosis) rendering(p *status.Pool) {
	logs := look(inMCO+"logs deployment/machine-config-controller -c machine-config-controller", "shows the whole message")
	for _, c := range p.Conditions {
		if c.Type == "RenderDegraded" {
			h := HoldUp{
				Cause: NotRendered, Pool: p.Name, Chain: chain(fmt.Sprintf("MCO renders no config for pool %s", p.Name), cmp.Or(c.Message, c.Reason, "it does not say why")),
				Remedies: []Remedy{look("mirrorset-guard render", "says whether the mirror objects are the reason"), logs},
			}
			d.newConfigs(p, &h)
			d.add(h)
			return
		}
	}
	config := d.Rendered[p.Target]
	if err := d.Unread[p.Target]; config == nil && p.Target != "" && !rollout.IsGone(err) {
		d.Unknown = append(d.Unknown, fmt.Sprintf("whether MCO has rendered for pool %s what the mirror objects ask for is not known: %s", p.Name, unreadConfig(p.Target, err)))
	}
	if config == nil || d.rejected != nil || d.MirrorsUnknown != nil || p.State == status.PoolDeleted || !verify.TakesMirrors(d.Cluster, p.Name) {
		return
	}
	differences, err := verify.PullDifferences(d.set, p.Name, config)
	if err == nil && verify.MaySpare(d.set, differences) {
		d.Unknown = append(d.Unknown, fmt.Sprintf("whether MCO has rendered for pool %s what the mirror objects ask for is not known: %s", p.Name, verify.PayloadUnknown))
		return
	}
	if err != nil || len(differences) == 0 || d.isFound(ControllerDown) {
		return
	}
	d.add(HoldUp{
		Cause: ObjectsNotRendered, Pool: p.Name, Unexplained: true, Passing: true,
		Chain: chain(
			fmt.Sprintf("pool %s is to get %s, which is not what the mirror objects ask for", p.Name, p.Target),
			"MCO has not rendered it: "+verify.DifferenceText(differences),
		),
		Remedies: []Remedy{
			look("mirrorset-guard render", "shows what the objects ask for, and whether MCO has applied it"), logs,
			act(inMCO+"delete pod -l k8s-app=machine-config-controller", "starts MCO's controllers anew, which render all that objects ask for; nodes of pools that are not paused then get it"),
		},
	})
}

// unreadConfig says why a rendered config is not known.
func unreadConfig(name string, err error) string {
	if err == nil {
		return fmt.Sprintf("MachineConfig %s was not read", name)
	}
	return err.Error()
}

// newConfigs says which MachineConfigs have come since MCO last rendered for a pool: one of
// them is most often the reason why it no longer does.
func (d *diagnosis) newConfigs(p *status.Pool, h *HoldUp) {
	d.Asks.Configs = true
	object := d.Cluster.Pool(p.Name)
	selector, err := metav1.LabelSelectorAsSelector(object.Spec.MachineConfigSelector)
	if err != nil || len(object.Spec.Configuration.Source) == 0 {
		return
	}
	rendered := func(name string) bool {
		return slices.ContainsFunc(object.Spec.Configuration.Source, func(r corev1.ObjectReference) bool { return r.Name == name })
	}
	for _, c := range d.Evidence.Configs {
		if len(h.Remedies) < status.Shown && selector.Matches(labels.Set(c.Labels)) && !rendered(c.Name) {
			h.because(fmt.Sprintf("MachineConfig %s is not in what MCO last rendered for the pool: it is new, and may be the reason", c.Name))
			h.Remedies = append(h.Remedies,
				look("oc get machineconfig "+text.Argument(c.Name)+" -o yaml", "shows it, and its owner, if it has one: repair what is wanted"))
			if !c.Owned {
				h.Remedies = append(h.Remedies, act("oc delete machineconfig "+text.Argument(c.Name), "takes it back; MCO renders without it at once, and no node changes for it"))
			}
		}
	}
}
