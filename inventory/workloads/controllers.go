package workloads

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// StatefulSets is the resource of the controllers that Objects.Controllers has.
const StatefulSets = "statefulsets"

// StatefulSet returns what is kept of one.
func StatefulSet(s *appsv1.StatefulSet) rollout.Controller {
	c := rollout.Controller{
		Namespace: s.Namespace, Owner: rollout.Owner{Kind: "StatefulSet", Name: s.Name},
		Parallel: s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement,
	}
	if o := s.Spec.Ordinals; o != nil {
		c.First = o.Start
	}
	return c
}

// A controller is a rollout.Controller in JSON, as dumps have it.
type controller struct {
	Namespace string `json:"namespace"`
	Owner     owner  `json:"owner"`
	Parallel  bool   `json:"parallel,omitempty"`
	First     int32  `json:"first,omitempty"`
}

// EncodeController returns what is written of a controller to a dump, in JSON.
func EncodeController(c rollout.Controller) any {
	return controller{c.Namespace, owner(c.Owner), c.Parallel, c.First}
}

// DecodeController reads what EncodeController wrote.
func DecodeController(data []byte) (rollout.Controller, error) {
	var c controller
	if err := json.Unmarshal(data, &c); err != nil {
		return rollout.Controller{}, err
	}
	if c.Namespace == "" || c.Owner.Kind == "" || c.Owner.Name == "" {
		return rollout.Controller{}, errors.New("a controller without a name")
	}
	return rollout.Controller{Namespace: c.Namespace, Owner: rollout.Owner(c.Owner), Parallel: c.Parallel, First: c.First}, nil
}

// CompareControllers compares controllers by namespace, kind and name.
func CompareControllers(a, b rollout.Controller) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}
