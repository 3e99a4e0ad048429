package stage

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// runPods does what the kubelets do next: a pod runs once its images are there, and is gone
// when it is to go.
func (n *Nodes) runPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := n.stage.Client.List(ctx, &pods); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		var err error
		switch {
		case pod.Spec.NodeName == "":
		case pod.DeletionTimestamp != nil:
			err = n.stage.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
		case pod.Status.Phase == corev1.PodPending:
			err = n.startPod(ctx, pod)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func (n *Nodes) startPod(ctx context.Context, pod *corev1.Pod) error {
	var failed error
	status := corev1.ContainerStatus{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image}
	for _, c := range pod.Spec.Containers {
		if failed = n.pull(pod.Spec.NodeName, c); failed != nil {
			break
		}
	}
	now, ready := metav1.Now(), corev1.ConditionTrue
	switch {
	case failed == nil:
		pod.Status.Phase = corev1.PodRunning
		status.Ready, status.State.Running = true, &corev1.ContainerStateRunning{StartedAt: now}
		n.note("%s: runs %s", pod.Spec.NodeName, pod.Labels["app"])
	case len(pod.Status.ContainerStatuses) > 0:
		return nil // it was said before
	default:
		ready = corev1.ConditionFalse
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: failed.Error()}
		n.note("%s: cannot pull for %s", pod.Spec.NodeName, pod.Labels["app"])
	}
	pod.Status.StartTime = &now
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: ready, LastTransitionTime: now})
	}
	pod.Status.Conditions = lastOfEach(pod.Status.Conditions)
	return n.stage.Client.Status().Update(ctx, pod)
}

// lastOfEach drops conditions of which there is a later one.
func lastOfEach(conditions []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	at := map[corev1.PodConditionType]int{}
	for _, c := range conditions {
		if i, ok := at[c.Type]; ok {
			kept[i] = c
			continue
		}
		at[c.Type] = len(kept)
		kept = append(kept, c)
	}
	return kept
}

// pull pulls the image of a container to a node, unless the node has it and need not ask.
func (n *Nodes) pull(node string, c corev1.Container) error {
	n.mu.Lock()
	config, has := n.disk[node], n.images[node][c.Image]
	n.mu.Unlock()
	if has && c.ImagePullPolicy != corev1.PullAlways {
		return nil
	}
	if err := n.route(config, c.Image); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.images[node][c.Image] = true
	return nil
}

// route asks the places that the runtime would ask, by the files of a config, with the
// runtime's own library.
func (n *Nodes) route(config, image string) error {
	sys := &types.SystemContext{
		SystemRegistriesConfPath:    filepath.Join(n.dir, config, mirrors.RegistriesConfPath),
		SystemRegistriesConfDirPath: filepath.Join(n.dir, config, filepath.Dir(mirrors.SearchDropInPath)),
	}
	ref, err := reference.ParseDockerRef(image)
	if err != nil {
		return err
	}
	places := []string{ref.String()}
	if registry, err := sysregistriesv2.FindRegistry(sys, ref.Name()); err != nil {
		return err
	} else if registry != nil {
		sources, err := registry.PullSourcesFromReference(ref)
		if err != nil {
			return err
		}
		places = nil
		for _, s := range sources {
			if at, err := sysregistriesv2.FindRegistry(sys, s.Reference.Name()); err != nil {
				return err
			} else if at == nil || !at.Blocked {
				places = append(places, s.Reference.String())
			}
		}
	}
	for _, place := range places {
		if n.serves(place) {
			return nil
		}
	}
	return fmt.Errorf("none of %q serves it", places)
}
