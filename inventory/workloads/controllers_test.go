package workloads

import (
	"encoding/json"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// TestStatefulSetTemplate: the template is kept where a pod may not be of it, and so it comes out of a dump.
func TestStatefulSetTemplate(t *testing.T) {
	updated := appsv1.StatefulSetStatus{ObservedGeneration: 2, CurrentRevision: "b", UpdateRevision: "b", Replicas: 3, UpdatedReplicas: 3}
	for reason, tt := range map[string]struct {
		alter     func(*appsv1.StatefulSetStatus)
		kept      bool
		partition int32
	}{
		"all are of it":                  {func(*appsv1.StatefulSetStatus) {}, false, 0},
		"OnDelete, or an update":         {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "a" }, true, 0},
		"a way back under way":           {func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 2 }, true, 0},
		"the controller has not seen it": {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = 1 }, true, 0},
		"nothing is known":               {func(s *appsv1.StatefulSetStatus) { *s = appsv1.StatefulSetStatus{} }, true, 0},
		"all from the partition on":      {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision, s.UpdatedReplicas = "a", 1 }, false, 2},
		"one of these is not yet":        {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision, s.UpdatedReplicas = "a", 1 }, true, 1},
	} {
		set := &appsv1.StatefulSet{Status: updated}
		set.Namespace, set.Name, set.Generation = "shop", "db", 2
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Image: "quay.io/db:2"}}
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &tt.partition}
		tt.alter(&set.Status)
		got := *ControllerOf(set)
		if want := []rollout.Container{{Name: "db", Image: "quay.io/db:2", Pull: corev1.PullIfNotPresent}}; tt.kept && !reflect.DeepEqual(got.Template, want) || !tt.kept && got.Template != nil {
			t.Errorf("%s: kept %v", reason, got.Template)
		}
		data, err := json.Marshal(EncodeController(got))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := DecodeController(data); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s: got %+v, want %+v (%v)", reason, again, got, err)
		}
	}
}
