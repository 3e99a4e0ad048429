package images

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestPulls: where pods may run, whether they pull, and whether they will be there again.
func TestPulls(t *testing.T) {
	const spec = `"spec": {"containers": [{"name": "c", "image": "quay.io/x:1"}], `
	template := func(meta, more string) string {
		return `{"metadata": {"name": "x"` + meta + `}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "quay.io/x:1"` + more + `}}}}`
	}
	const gone = `, "deletionTimestamp": "2026-01-02T03:04:05Z"`
	owner := func(apiVersion, kind string) string {
		return `, "ownerReferences": [{"apiVersion": "` + apiVersion + `", "kind": "` + kind + `", "name": "o", "uid": "u", "controller": true}]`
	}
	for _, tc := range []struct {
		name  string
		kind  schema.GroupKind
		json  string
		where string
		never bool
		ends  bool
		by    string // the controller that makes it anew
	}{
		{"anywhere", schema.GroupKind{Group: "apps", Kind: "Deployment"}, template("", `}]`), "{}", false, false, ""},
		{"by a label", schema.GroupKind{Group: "apps", Kind: "Deployment"}, template("", `}], "nodeSelector": {"kubernetes.io/arch": "amd64"}`), `{"nodeSelector":{"kubernetes.io/arch":"amd64"}}`, false, false, ""},
		{
			"by what it requires, not by what it prefers",
			schema.GroupKind{Kind: "Pod"},
			`{"metadata": {"name": "x"}, ` + spec + `"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
				"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "b", "operator": "Exists"}]}}]}}}}`,
			`{"nodeAffinity":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}`, false, false, "",
		},
		{
			"of what it tolerates, what is about Windows",
			schema.GroupKind{Kind: "Pod"},
			`{"metadata": {"name": "x"}, ` + spec + `"os": {"name": "windows"}, "tolerations": [{"key": "gpu", "operator": "Exists"}, {"key": "os", "value": "Windows", "effect": "NoSchedule"}]}}`,
			`{"os":"windows","tolerations":[{"key":"os","value":"Windows"}]}`, false, false, "",
		},
		{"a pod that stays", schema.GroupKind{Kind: "Pod"}, `{"metadata": {"name": "x"}, ` + spec + `"nodeName": "n", "nodeSelector": {"a": "b"}}}`, `{"node":"n"}`, false, false, ""},
		{"a pod that is made anew elsewhere", schema.GroupKind{Kind: "Pod"}, `{"metadata": {"name": "x"` + owner("apps/v1", "ReplicaSet") + `}, ` + spec + `"nodeName": "n"}}`, "{}", false, false, ""},
		{
			"one of a DaemonSet",
			schema.GroupKind{Kind: "Pod"},
			`{"metadata": {"name": "x"` + owner("apps/v1", "DaemonSet") + `}, ` + spec + `"nodeName": "n", "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}}}}`,
			"{}", false, false, "",
		},
		{"an affinity that is too long to be kept", schema.GroupKind{Kind: "Pod"}, `{"metadata": {"name": "x"}, ` + spec + `"nodeSelector": {"a": "` + strings.Repeat("b", maxPlacement) + `"}}}`, "", false, false, ""},
		{"never pulls", schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, template("", `, "imagePullPolicy": "Never"}]`), "{}", true, false, ""},
		{"pulls once", schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, template("", `, "imagePullPolicy": "IfNotPresent"}]`), "{}", false, false, ""},
		{"is being deleted", schema.GroupKind{Group: "apps", Kind: "Deployment"}, template(gone, `}]`), "{}", false, true, ""},
		{"is being deleted, and made anew", schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, template(gone+owner("apps/v1", "Deployment"), `}]`), "{}", false, false, "Deployment.apps"},
		{"is being deleted, and made anew by who knows what", schema.GroupKind{Kind: "Pod"}, `{"metadata": {"name": "x"` + gone + owner("example.com/v1", "Thing") + `}, ` + spec + `"nodeName": "n"}}`, "{}", false, false, "Thing.example.com"},
		{"a pod that is being deleted", schema.GroupKind{Kind: "Pod"}, `{"metadata": {"name": "x"` + gone + `}, ` + spec + `"nodeName": "n"}}`, `{"node":"n"}`, false, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, err := Decode(tc.kind, []byte(tc.json))
			if err != nil || len(h.References) != 1 {
				t.Fatal(h, err)
			}
			r := Pack(h.References).References()[0]
			if r.Placement != tc.where || r.NeverPulls != tc.never || r.Ending != tc.ends || r.Keeper.String() != tc.by {
				t.Errorf("got %q, never %t, ending %t, made by %q", r.Placement, r.NeverPulls, r.Ending, r.Keeper)
			}
		})
	}
}

// TestNeverRan: whether a node has had an image is what the pod's status says, of a volume what it says of all
// containers.
func TestNeverRan(t *testing.T) {
	const waits, has = `"restartCount": 0, "imageID": "", "state": {"waiting": {"reason": "%s"}}`, `"restartCount": 0, "imageID": "quay.io/x@sha256:aa", "state": {"running": {}}`
	for _, tc := range []struct {
		what, phase, status string
		container, volume   bool
	}{
		{"no node has tried", "Pending", "", true, true},
		{"a node begins", "Pending", fmt.Sprintf(waits, "ContainerCreating"), true, true},
		{"it does not get it", "Pending", fmt.Sprintf(waits, "ImagePullBackOff"), true, true},
		{"it does not get it beside one that runs", "Running", fmt.Sprintf(waits, "ErrImagePull"), true, false},
		{"it runs", "Running", has, false, false},
		{"it has had it", "Pending", `"restartCount": 0, "imageID": "quay.io/x@sha256:aa", "state": {"waiting": {"reason": "ImagePullBackOff"}}`, false, false},
		{"its pod ended without it", "Failed", `"restartCount": 0, "imageID": "", "state": {"terminated": {"reason": "ContainerStatusUnknown"}}`, true, false},
		{"it was lost while it ran", "Failed", `"restartCount": 1, "imageID": "", "state": {"terminated": {"reason": "ContainerStatusUnknown"}}`, false, false},
		{"it ended", "Failed", `"restartCount": 0, "imageID": "", "state": {"terminated": {"reason": "Error"}}`, false, false},
		{"it ran once", "Pending", `"restartCount": 1, "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff"}}`, false, false},
		{"it has it and cannot start", "Pending", fmt.Sprintf(waits, "CreateContainerConfigError"), false, false},
		{"no API server made it", "", "", false, false},
	} {
		statuses := ""
		if tc.status != "" {
			statuses = `{"name": "c", "image": "", ` + tc.status + `}`
		}
		h, err := Decode(schema.GroupKind{Kind: "Pod"}, fmt.Appendf(nil, `{"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "quay.io/x:1"}],
			"volumes": [{"name": "v", "image": {"reference": "quay.io/v:1"}}]}, "status": {"phase": %q, "containerStatuses": [%s]}}`, tc.phase, statuses))
		if err != nil || len(h.References) != 2 || h.References[0].NeverRan != tc.container || h.References[1].NeverRan != tc.volume {
			t.Errorf("%s: %+v, %v", tc.what, h, err)
		}
	}
}

// TestOnePlacement: consumers that may run on the same nodes share their Placement.
func TestOnePlacement(t *testing.T) {
	var x Index
	for _, name := range []string{"a", "b"} {
		x.Put(Holder{Kind: "Pod", Namespace: "shop", Name: name, References: []Reference{{Image: "quay.io/x:1", Placement: `{"nodeSelector":{"a":"b"}}`}}})
	}
	x.Put(Holder{Kind: "Pod", Namespace: "shop", Name: "c", References: []Reference{{Image: "quay.io/x:1"}}})
	c := x.Images().ByReference()[0].Consumers
	if c[0].Placement == nil || c[0].Placement != c[1].Placement || c[2].Placement != nil {
		t.Errorf("got %p, %p, %p", c[0].Placement, c[1].Placement, c[2].Placement)
	}
	if diff := cmp.Diff(&policy.Placement{NodeSelector: map[string]string{"a": "b"}}, c[0].Placement); diff != "" {
		t.Error(diff)
	}
}
