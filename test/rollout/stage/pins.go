package stage

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pin does what the daemons do about the PinnedImageSets that MCO's controller has given to their pools
// (pkg/daemon/pinned_image_set.go in MCO): each pulls all images by the route of its node, and then tells in
// its MachineConfigNode.
func (n *Nodes) pin(ctx context.Context) error {
	var sets mcfgv1.PinnedImageSetList
	if err := n.stage.Client.List(ctx, &sets); err != nil || len(sets.Items) == 0 {
		return err
	}
	pools, err := n.stage.pools(ctx)
	if err != nil {
		return err
	}
	for _, name := range n.names {
		for _, pool := range pools {
			if pool.Name != n.PoolOf(name) {
				continue
			}
			if err := n.pinOn(ctx, name, pool, sets.Items); err != nil {
				return err
			}
		}
	}
	return nil
}

// pinOn has a node try the sets of its pool that it has not told of. It tells of all of them each time, as a pool may get one
// after the other.
func (n *Nodes) pinOn(ctx context.Context, node string, pool mcfgv1.MachineConfigPool, sets []mcfgv1.PinnedImageSet) error {
	told := n.nodes[node].told
	var all []mcfgv1.MachineConfigNodeStatusPinnedImageSet
	news, failed := false, false
	for _, ref := range pool.Spec.PinnedImageSets {
		i := slices.IndexFunc(sets, func(s mcfgv1.PinnedImageSet) bool { return s.Name == ref.Name })
		if i < 0 {
			continue
		}
		status := told[ref.Name]
		if generation := int32(sets[i].Generation); status.DesiredGeneration != generation {
			news, status = true, mcfgv1.MachineConfigNodeStatusPinnedImageSet{Name: ref.Name, DesiredGeneration: generation}
			if err := n.pullSet(ctx, node, &sets[i]); err != nil {
				status.LastFailedGeneration, status.LastFailedGenerationError = generation, err.Error()
			} else {
				status.CurrentGeneration = generation
			}
		}
		failed = failed || status.CurrentGeneration == 0
		all = append(all, status)
	}
	if !news {
		return ctx.Err()
	}
	if err := n.tell(ctx, node, pool, all, failed); err != nil {
		return err // they are tried again
	}
	for _, status := range all {
		told[status.Name] = status
	}
	return nil
}

// pullSet pulls what a node does not hold yet. The first image that fails fails the set.
func (n *Nodes) pullSet(ctx context.Context, node string, set *mcfgv1.PinnedImageSet) error {
	for _, image := range set.Spec.PinnedImages {
		n.mu.Lock()
		s := n.nodes[node]
		config, has := s.disk, slices.Contains(s.images, string(image.Name)) || slices.Contains(s.pinned, string(image.Name))
		n.mu.Unlock()
		if !has {
			if err := n.registries.pull(ctx, filepath.Join(n.dir, config), string(image.Name)); err != nil {
				return err
			}
		}
		n.mu.Lock()
		s.pinned = append(s.pinned, string(image.Name))
		n.mu.Unlock()
	}
	return nil
}

// tell writes the status of a MachineConfigNode, which the node controller makes where the gate is on.
func (n *Nodes) tell(ctx context.Context, node string, pool mcfgv1.MachineConfigPool, sets []mcfgv1.MachineConfigNodeStatusPinnedImageSet, failed bool) error {
	config := pool.Spec.Configuration.Name
	o := &mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: mcfgv1.MachineConfigNodeSpec{
		Node: mcfgv1.MCOObjectReference{Name: node}, Pool: mcfgv1.MCOObjectReference{Name: pool.Name},
		ConfigVersion: mcfgv1.MachineConfigNodeSpecMachineConfigVersion{Desired: config},
	}}
	if err := n.stage.Client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	degraded, reason := metav1.ConditionFalse, "AsExpected"
	if failed {
		degraded, reason = metav1.ConditionTrue, "PrefetchFailed"
	}
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"configVersion": map[string]any{"desired": config}, "pinnedImageSets": sets,
		"conditions": []metav1.Condition{
			{Type: string(mcfgv1.MachineConfigNodePinnedImageSetsProgressing), Status: metav1.ConditionFalse, Reason: "AsExpected", LastTransitionTime: now},
			{Type: string(mcfgv1.MachineConfigNodePinnedImageSetsDegraded), Status: degraded, Reason: reason, LastTransitionTime: now},
		},
	}})
	if err != nil {
		return err
	}
	return n.stage.Client.Status().Patch(ctx, &mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch("application/merge-patch+json", patch))
}

// AwaitPinned waits until each node of a pool has told of all sets of its pool.
func (n *Nodes) AwaitPinned(ctx context.Context, sets map[string]int) {
	n.stage.t.Helper()
	n.stage.Wait(ctx, "the nodes to have pulled what is pinned", func() (bool, error) {
		var all mcfgv1.MachineConfigNodeList
		if err := n.stage.Client.List(ctx, &all); err != nil {
			return false, err
		}
		told := map[string]int{}
		for i := range all.Items {
			told[all.Items[i].Name] = len(all.Items[i].Status.PinnedImageSets)
		}
		return !slices.ContainsFunc(n.names, func(name string) bool { return told[name] != sets[n.PoolOf(name)] }), nil
	})
}
