package workloads

import (
	"cmp"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

func statefulSet(s *appsv1.StatefulSet) *rollout.Controller {
	c := &rollout.Controller{
		Namespace: s.Namespace, Owner: rollout.Owner{Kind: "StatefulSet", Name: s.Name},
		Parallel: s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement, Maker: rollout.NameOf(rollout.OwnerOf(s)),
	}
	if o := s.Spec.Ordinals; o != nil {
		c.First = o.Start
	}
	if !isUpdated(s) {
		c.Template = containersOf(&s.Spec.Template.Spec)
	}
	return c
}

// isUpdated reports whether all pods of a StatefulSet are known to be made from the template that it has now, but for those below its
// partition, which are made from the one before. Otherwise its controller may make the next one from another than the last
// (newVersionedStatefulSetPod in pkg/controller/statefulset).
func isUpdated(s *appsv1.StatefulSet) bool {
	now, partition := &s.Status, int32(0)
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		partition = *u.Partition
	}
	isPart := now.CurrentRevision != now.UpdateRevision && partition > 0 && now.UpdatedReplicas >= now.Replicas-partition
	isAll := now.CurrentRevision == now.UpdateRevision && now.UpdatedReplicas == now.Replicas
	return now.ObservedGeneration == s.Generation && now.UpdateRevision != "" && (isAll || isPart)
}

// ControllerOf returns the kept part of a StatefulSet; of a ReplicaSet or ReplicationController, nil if it can make pods; and of a
// Deployment, nil if it has no owner.
func ControllerOf(o runtime.Object) *rollout.Controller {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return statefulSet(o)
	case *appsv1.Deployment:
		if maker := rollout.NameOf(rollout.OwnerOf(o)); maker != "" {
			return &rollout.Controller{Namespace: o.Namespace, Owner: rollout.Owner{Kind: "Deployment", Name: o.Name}, Maker: maker}
		}
	case *appsv1.ReplicaSet:
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return failingCreate("ReplicaSet", &o.ObjectMeta, c.Reason, c.Message)
			}
		}
	case *corev1.ReplicationController:
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.ReplicationControllerReplicaFailure && c.Status == corev1.ConditionTrue {
				return failingCreate("ReplicationController", &o.ObjectMeta, c.Reason, c.Message)
			}
		}
	}
	return nil
}

// failingCreate returns a controller that cannot make a pod. One that cannot delete a pod can.
func failingCreate(kind string, meta *metav1.ObjectMeta, reason, message string) *rollout.Controller {
	if reason != "FailedCreate" {
		return nil
	}
	return &rollout.Controller{
		Namespace: meta.Namespace, Owner: rollout.Owner{Kind: kind, Name: meta.Name}, Failure: text.OneLine(cmp.Or(message, reason), maxDetail),
	}
}

// A controller is a rollout.Controller in JSON, as dumps have it.
type controller struct {
	Namespace string `json:"namespace"`
	Owner     owner  `json:"owner"`
	Parallel  bool   `json:"parallel,omitempty"`
	First     int32  `json:"first,omitempty"`
	Maker     string `json:"maker,omitempty"`
	Failure   string `json:"failure,omitempty"`

	Template []container `json:"template,omitempty"`
}

// EncodeController returns a controller as a dump has it, in JSON.
func EncodeController(c rollout.Controller) any {
	template := convert.Each(c.Template, func(c rollout.Container) container { return container(c) })
	return controller{c.Namespace, owner(c.Owner), c.Parallel, c.First, c.Maker, c.Failure, template}
}

// DecodeController reads what EncodeController wrote.
func DecodeController(data []byte) (rollout.Controller, error) {
	var c controller
	if err := strictjson.Unmarshal(data, &c); err != nil {
		return rollout.Controller{}, err
	}
	if c.Namespace == "" || c.Owner.Kind == "" || c.Owner.Name == "" {
		return rollout.Controller{}, errors.New("a controller without a name")
	}
	template := convert.Each(c.Template, func(c container) rollout.Container { return rollout.Container(c) })
	return rollout.Controller{Namespace: c.Namespace, Owner: rollout.Owner(c.Owner), Parallel: c.Parallel, First: c.First, Maker: c.Maker, Failure: c.Failure, Template: template}, nil
}

// CompareControllers compares controllers by namespace, kind and name.
func CompareControllers(a, b rollout.Controller) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}
