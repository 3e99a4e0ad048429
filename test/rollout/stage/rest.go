package stage

import (
	"context"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// quiet is how long nodes have to be left alone that no pool chooses: a few of the node controller's
// delays: it looks again after each.
const quiet = 3 * time.Second

// Await waits until nothing more happens. It is for after a change that gives every pool
// another config than before (by name of the pool).
//
// That a rollout stalls is known by events: every drain that is under way was refused
// repeatedly since the last thing that happened, by a budget that is up to date; each pod that
// does not run was tried again by its kubelet or refused by the scheduler; and no pool may take
// another node.
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
	takesMore := func(p mcfgv1.MachineConfigPool) bool { return mayTakeMore(p, n.waitingIn(p.Name, rest)) }
	switch {
	case !seen, rest.Finished() && slices.ContainsFunc(pools, isBehind), slices.ContainsFunc(pools, takesMore):
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

// waitingIn returns how many nodes of a pool wait.
func (n *Nodes) waitingIn(pool string, rest Rest) int {
	waiting := 0
	for _, name := range rest.Waiting {
		if n.PoolOf(name) == pool {
			waiting++
		}
	}
	return waiting
}

// mayTakeMore reports whether a pool with waiting nodes may take one of them, by the last counts of its
// controller (getAllCandidateMachines in MCO's pkg/controller/node/node_controller.go). Then it does
// so, however long that takes on a busy machine.
func mayTakeMore(p mcfgv1.MachineConfigPool, waiting int) bool {
	degraded, most := int(p.Status.DegradedMachineCount), 1
	if p.Spec.MaxUnavailable != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(p.Spec.MaxUnavailable, int(p.Status.MachineCount), false); err == nil {
			most = max(n, 1)
		}
	}
	return !p.Spec.Paused && waiting > degraded && int(p.Status.UnavailableMachineCount)+degraded < most
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
	return n.haveNoRoom(ctx, rest.Blocking, pods.Items)
}

// haveNoRoom reports whether the budgets of pods that are not evicted have seen all pods as they are,
// and still allow no eviction: they are kept by a controller that may be late.
func (n *Nodes) haveNoRoom(ctx context.Context, blocking []string, pods []corev1.Pod) (bool, error) {
	var budgets policyv1.PodDisruptionBudgetList
	if err := n.stage.Client.List(ctx, &budgets); err != nil {
		return false, err
	}
	for _, b := range budgets.Items {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return false, err
		}
		healthy, blocks := int32(0), false
		for i := range pods {
			pod := &pods[i]
			if pod.Namespace != b.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			blocks = blocks || slices.Contains(blocking, pod.Namespace+"/"+pod.Name)
			if podIsReady(pod) && pod.DeletionTimestamp == nil { // as countHealthyPods of the disruption controller
				healthy++
			}
		}
		if b.Status.CurrentHealthy != healthy || blocks && b.Status.DisruptionsAllowed > 0 {
			return false, nil
		}
	}
	return true, nil
}

func podIsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
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

// longestBackoff is longer than the scheduler leaves a pod alone that it could not place, after
// something has happened that may give it room (DefaultPodMaxBackoffDuration, 10 s, in
// pkg/scheduler/backend/queue of k8s.io/kubernetes).
const longestBackoff = 15 * time.Second

// isStuck reports whether a pod that does not run has been tried since.
func (n *Nodes) isStuck(pod *corev1.Pod, since time.Time) bool {
	if pod.Spec.NodeName == "" {
		return time.Since(since) > longestBackoff && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
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
