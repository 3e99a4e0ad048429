package stage

import (
	"context"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
)

// A Rest is a rollout in which nothing more happens.
type Rest struct {
	// Updated are the nodes that have the config of their pool, Waiting those that it was not
	// given to, each in the order of their names.
	Updated, Waiting []string
	// Stalled are those that are in the middle, most often with a drain that is refused.
	Stalled []string
	// Blocking are the pods ("namespace/name") that the stalled drains cannot evict.
	Blocking []string
}

// Finished reports whether all nodes are updated.
func (r Rest) Finished() bool { return len(r.Waiting) == 0 && len(r.Stalled) == 0 }

// refusals is how often the eviction of a pod has to be refused, with nothing else happening
// in between, before its drain counts as stalled. The drain controller tries again every 5 s.
const refusals = 2

// quiet is how long nodes have to be left alone that no pool chooses: a few of the node
// controller's delays, after each of which it looks again.
const quiet = 3 * time.Second

// Await waits until nothing more happens. It is for after a change that gives every pool
// another config than before (by name of the pool).
//
// That a rollout stalls is known by events: every drain that is under way was refused
// repeatedly since the last thing that happened, and each pod that does not run was tried
// again by its kubelet or refused by the scheduler.
func (n *Nodes) Await(ctx context.Context, before map[string]string) Rest {
	n.stage.t.Helper()
	for pool, config := range before {
		n.note(Event{Kind: Rendered, Config: n.stage.Rendered(ctx, pool, config)})
	}
	var rest Rest
	n.stage.Wait(ctx, "the rollout to end or to stall", func() (bool, error) {
		var ok bool
		var err error
		rest, ok, err = n.rest(ctx)
		return ok, err
	})
	return rest
}

// Configs returns the rendered config that each pool is to have.
func (n *Nodes) Configs(ctx context.Context) map[string]string {
	n.stage.t.Helper()
	pools, err := n.stage.pools(ctx)
	n.stage.must(err)
	configs := map[string]string{}
	for _, pool := range pools {
		configs[pool.Name] = pool.Spec.Configuration.Name
	}
	return configs
}

func (n *Nodes) rest(ctx context.Context) (Rest, bool, error) {
	pools, err := n.stage.pools(ctx)
	if err != nil {
		return Rest{}, false, err
	}
	var nodes corev1.NodeList
	if err := n.stage.Client.List(ctx, &nodes); err != nil {
		return Rest{}, false, err
	}
	rest, seen := n.progress(pools, nodes.Items)
	isBehind := func(p mcfgv1.MachineConfigPool) bool { return !isUpdated(p) }
	switch {
	case !seen, rest.Finished() && slices.ContainsFunc(pools, isBehind):
		return rest, false, nil
	case len(rest.Waiting) > 0 && len(rest.Stalled) == 0 && time.Since(n.lastMove()) < quiet:
		return rest, false, nil // the next node may have been chosen before this one was seen to be done
	}
	ok, err := n.settled(ctx, &rest)
	return rest, ok, err
}

// progress returns how far nodes are, and whether the node controller has seen all that are
// updated. Pools have to be read before nodes.
func (n *Nodes) progress(pools []mcfgv1.MachineConfigPool, nodes []corev1.Node) (rest Rest, seen bool) {
	targets, updated := map[string]string{}, map[string]int32{}
	for _, pool := range pools {
		targets[pool.Name] = pool.Spec.Configuration.Name
	}
	for _, node := range nodes {
		pool := n.PoolOf(node.Name)
		current, desired, state := node.Annotations[annotation+"currentConfig"], node.Annotations[annotation+"desiredConfig"], node.Annotations[annotation+"state"]
		switch {
		case current != desired && (state != "Degraded" || !n.hasFailed(node.Name, desired)):
			rest.Stalled = append(rest.Stalled, node.Name)
		case current == targets[pool] && state == "Done":
			rest.Updated = append(rest.Updated, node.Name)
			updated[pool]++
		default:
			rest.Waiting = append(rest.Waiting, node.Name)
		}
	}
	unseen := slices.ContainsFunc(pools, func(p mcfgv1.MachineConfigPool) bool {
		return p.Status.ObservedGeneration != p.Generation || p.Status.UpdatedMachineCount != updated[p.Name]
	})
	return rest, !unseen
}

// hasFailed reports whether the daemon of a node has given up on a config.
func (n *Nodes) hasFailed(name, config string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[name] != nil && n.nodes[name].failed == config
}

// settled reports whether nothing moves any more, and fills in which pods block drains.
func (n *Nodes) settled(ctx context.Context, rest *Rest) (bool, error) {
	var pods corev1.PodList
	if err := n.stage.Client.List(ctx, &pods); err != nil {
		return false, err
	}
	last := n.lastMove()
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodPending && !n.isStuck(pod, last):
			return false, nil
		}
	}
	for _, name := range rest.Stalled {
		blocking := n.refusedSince(last, name)
		if len(blocking) == 0 {
			return false, nil
		}
		rest.Blocking = append(rest.Blocking, blocking...)
	}
	return true, nil
}

// lastMove is when something last happened that may let a rollout go on.
func (n *Nodes) lastMove() time.Time {
	var last time.Time
	for _, e := range n.Events() {
		if e.Kind != Refused && e.Kind != Trouble && e.Time.After(last) {
			last = e.Time
		}
	}
	return last
}

// isStuck reports whether a pod that does not run has been tried since.
func (n *Nodes) isStuck(pod *corev1.Pod, since time.Time) bool {
	if pod.Spec.NodeName == "" {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.pods[pod.Namespace+"/"+pod.Name]
	return was.failed > 0 && was.tried.After(since)
}

// refusedSince returns the pods of a node whose eviction was refused often enough.
func (n *Nodes) refusedSince(since time.Time, node string) []string {
	count := map[string]int{}
	for _, e := range n.Events() {
		if e.Kind == Refused && e.Node == node && e.Time.After(since) {
			count[e.Pod]++
		}
	}
	var pods []string
	for pod, times := range count {
		if times >= refusals {
			pods = append(pods, pod)
		}
	}
	slices.Sort(pods)
	return pods
}
