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
		alter func(*appsv1.StatefulSetStatus)
		kept  bool
	}{
		"all are of it":                  {func(*appsv1.StatefulSetStatus) {}, false},
		"OnDelete, or an update":         {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "a" }, true},
		"a way back under way":           {func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 2 }, true},
		"the controller has not seen it": {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = 1 }, true},
		"nothing is known":               {func(s *appsv1.StatefulSetStatus) { *s = appsv1.StatefulSetStatus{} }, true},
	} {
		set := &appsv1.StatefulSet{Status: updated}
		set.Namespace, set.Name, set.Generation = "shop", "db", 2
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Image: "quay.io/db:2"}}
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
