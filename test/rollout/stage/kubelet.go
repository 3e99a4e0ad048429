package stage

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// retryPull is how long a kubelet waits after a pull that failed. Upstream begins with 10 s.
const retryPull = 2 * time.Second

// A seen pod is one that the scheduler has sent to a node.
type seen struct {
	uid       types.UID
	node, app string
	// failed counts the attempts to pull its images that failed, the last one at tried.
	failed int
	tried  time.Time
}

// runPods does what the kubelets do next: a pod runs once its images are there, and is gone
// when it is to go.
func (n *Nodes) runPods(ctx context.Context) error {
	defer n.beginLap()()
	var pods corev1.PodList
	if err := n.stage.Client.List(ctx, &pods); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		n.see(pod)
		var err error
		switch {
		case n.isSilent(ctx, pod.Spec.NodeName):
		case isEnding(pod):
		case pod.DeletionTimestamp != nil:
			err = n.stage.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
		case pod.Status.Phase == corev1.PodPending:
			err = n.startPod(ctx, pod)
		case n.isForgotten(pod):
			err = n.remember(ctx, pod)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	if err := n.followPods(pods.Items); err != nil {
		return err
	}
	return n.stage.timeline.readAudit(n.where)
}

// beginLap notes when the kubelets begin, and with what it returns how long they took.
func (n *Nodes) beginLap() (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lapBegan = time.Now()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lap = time.Since(n.lapBegan)
	}
}

// Lap is how long it takes until the kubelets, which pull one image after the other, get to a pod: as long
// as the last time, or longer if they are not through with that already.
func (n *Nodes) Lap() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(n.lap, time.Since(n.lapBegan))
}

// endsAfter is how long a pod of a StatefulSet takes to end, a second at least as times are cut to seconds.
// Kubernetes' disruption controller has to see that it is about to: else it takes the next pod of that
// name for it, for two minutes, in which the budget lets no pod go.
const endsAfter = 2 * time.Second

// isEnding reports whether a pod is to go, and has not ended yet.
func isEnding(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil && pod.Labels[LingerLabel] != "" {
		return true
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil || !slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "StatefulSet" }) {
		return false
	}
	told := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	return time.Since(told) < endsAfter
}

// isForgotten reports whether a pod that runs is taken for one that is not ready, since its node was:
// Kubernetes' node controller says so, and the kubelet takes it back once it is heard again.
func (n *Nodes) isForgotten(pod *corev1.Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return pod.Status.Phase == corev1.PodRunning && !podIsReady(pod) && pod.Labels[CrashLabel] == "" && !n.nodes[pod.Spec.NodeName].sick && !n.nodes[pod.Spec.NodeName].down
}

// remember says that a pod is ready after all.
func (n *Nodes) remember(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status, c.LastTransitionTime = corev1.ConditionTrue, metav1.Now()
		}
	}
	return n.stage.Client.Status().Update(ctx, pod)
}

// see notes where a pod went.
func (n *Nodes) see(pod *corev1.Pod) {
	key := pod.Namespace + "/" + pod.Name
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pods[key].uid == pod.UID {
		return
	}
	n.pods[key] = seen{uid: pod.UID, node: pod.Spec.NodeName, app: pod.Labels["app"]}
	n.note(Event{Kind: Placed, Node: pod.Spec.NodeName, Pod: key, App: pod.Labels["app"]})
}

func (n *Nodes) where(pod string) (node, app string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[pod].node, n.pods[pod].app
}

func (n *Nodes) startPod(ctx context.Context, pod *corev1.Pod) error {
	key := pod.Namespace + "/" + pod.Name
	n.mu.Lock()
	was := n.pods[key]
	n.mu.Unlock()
	if time.Since(was.tried) < retryPull {
		return nil
	}
	failed := n.pullAll(ctx, pod)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	event := Event{Kind: Runs, Node: pod.Spec.NodeName, Pod: key, App: pod.Labels["app"]}
	if failed != nil {
		event.Kind, event.Text = PullFailed, failed.image+": "+failed.err.Error()
		was.failed++
		was.tried = time.Now()
		n.mu.Lock()
		n.pods[key] = was
		n.mu.Unlock()
	}
	if was.failed > 1 && failed != nil {
		return nil // it was told before
	}
	n.note(event)
	pod.Status = podStatus(pod, failed)
	if failed == nil && pod.Labels[CrashLabel] != "" {
		crash(pod)
	}
	if failed == nil && n.isSick(pod.Spec.NodeName) {
		unready(pod)
	}
	return n.stage.Client.Status().Update(ctx, pod)
}

// pullError is an image that could not be pulled.
type pullError struct {
	image string
	err   error
}

// pullAll pulls the images of a pod, nil if all are there.
func (n *Nodes) pullAll(ctx context.Context, pod *corev1.Pod) *pullError {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if err := n.pull(ctx, pod.Spec.NodeName, c); err != nil {
			return &pullError{c.Image, err}
		}
	}
	return nil
}

// pull pulls the image of a container to a node, unless the node has it and need not ask.
func (n *Nodes) pull(ctx context.Context, node string, c corev1.Container) error {
	n.mu.Lock()
	config, has := n.nodes[node].disk, slices.Contains(n.nodes[node].images, c.Image) || slices.Contains(n.nodes[node].pinned, c.Image)
	n.mu.Unlock()
	if has && c.ImagePullPolicy != corev1.PullAlways {
		return nil
	}
	if err := n.registries.pull(ctx, filepath.Join(n.dir, config), c.Image); err != nil {
		return err
	}
	if has {
		return nil
	}
	n.mu.Lock()
	n.nodes[node].images = append(n.nodes[node].images, c.Image)
	n.mu.Unlock()
	return n.report(ctx, node)
}

// podStatus is what a kubelet says of a pod whose images are there, or one whose image is not.
func podStatus(pod *corev1.Pod, failed *pullError) corev1.PodStatus {
	status, now, ready := pod.Status, metav1.Now(), corev1.ConditionTrue
	status.StartTime, status.ContainerStatuses = &now, nil
	for _, c := range pod.Spec.Containers {
		s := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
		if failed == nil {
			s.Ready, s.State.Running = true, &corev1.ContainerStateRunning{StartedAt: now}
		} else {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		}
		if failed != nil && failed.image == c.Image {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: failed.err.Error()}
		}
		status.ContainerStatuses = append(status.ContainerStatuses, s)
	}
	if failed == nil {
		status.Phase = corev1.PodRunning
	} else {
		ready = corev1.ConditionFalse
	}
	kinds := []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady}
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c corev1.PodCondition) bool { return slices.Contains(kinds, c.Type) })
	for _, kind := range kinds {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: ready, LastTransitionTime: now})
	}
	return status
}
