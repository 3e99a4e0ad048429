package diagnosis

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// askOwners reads how far controllers are with their pods.
func (a *asker) askOwners(ctx context.Context, owners []status.OwnerName) {
	for _, o := range owners {
		made, err := a.made(ctx, o)
		if err != nil {
			a.note("why %s %s in namespace %s makes no pod could not be read (this requires the right to get %ss.apps and to list events): %v", o.Kind, o.Name, o.Namespace, o.Kind, err)
		}
		a.evidence.Owners[o] = made
	}
}

func (a *asker) made(ctx context.Context, o status.OwnerName) (status.Made, error) {
	if o.Kind == "StatefulSet" {
		set, err := a.kube.AppsV1().StatefulSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return status.Made{}, err
		}
		made := status.Made{Wanted: replicas(set.Spec.Replicas), Made: set.Status.Replicas}
		if made.Made < made.Wanted { // it has no condition for it
			made.Refused, err = a.lastFailure(ctx, o)
		}
		return made, err
	}
	set, err := a.kube.AppsV1().ReplicaSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return status.Made{}, err
	}
	made := status.Made{Wanted: replicas(set.Spec.Replicas), Made: set.Status.Replicas}
	for _, c := range set.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			made.Refused = text.OneLine(c.Message, maxWords)
		}
	}
	return made, nil
}

// replicas is 1 if there are none, as for an API server.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

const (
	// maxWords is how much is kept of what a controller says, in characters.
	maxWords = 1000
	// maxFailures is how many Events of a controller are read: those that say the same are one.
	maxFailures = 100
)

// lastFailure returns a controller's last message about a pod that it could not create, "" for none.
func (a *asker) lastFailure(ctx context.Context, o status.OwnerName) (string, error) {
	about := fields.Set{"involvedObject.kind": o.Kind, "involvedObject.name": o.Name, "reason": "FailedCreate"}
	list, err := a.kube.CoreV1().Events(o.Namespace).List(ctx, metav1.ListOptions{FieldSelector: about.String(), Limit: maxFailures})
	if err != nil {
		return "", fmt.Errorf("listing its Events: %w", err)
	}
	var last *corev1.Event
	for i := range list.Items {
		if e := &list.Items[i]; last == nil || last.LastTimestamp.Before(&e.LastTimestamp) {
			last = e
		}
	}
	if last == nil {
		return "", nil
	}
	return text.OneLine(last.Message, maxWords), nil
}
