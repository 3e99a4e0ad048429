package pins

import (
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/crd"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

func digest(n int) string { return fmt.Sprintf("@sha256:%064x", n) }

func pool(name string, roles ...string) *mcfgv1.MachineConfigPool {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: mcfgv1.MachineConfigRoleLabelKey, Operator: metav1.LabelSelectorOpIn, Values: append(roles, name)},
	}}
	return p
}

// TestMake: as few sets as hold the images, each once, and what cannot be pinned is said.
func TestMake(t *testing.T) {
	wants := []Want{
		{Pool: "infra", Image: "quay.io/shop/cart:v1", By: "Pod shop/cart"},
		{Pool: "infra", Image: "quay.io/shop/cart:v1" + digest(1), By: "Pod shop/cart"},
		{Pool: "infra", Image: "quay.io/a/b/c" + digest(2), By: "Pod shop/deep"},
		{Pool: "infra", Image: "nginx", By: "Pod shop/nginx"},
		{Pool: "infra", Image: "quay.io/shop/cart" + digest(3), By: "Pod shop/cart", Asks: "it asks"},
		{Pool: "gone", Image: "quay.io/shop/cart" + digest(3), By: "Pod shop/cart"},
	}
	for n := range 2*rollout.MaxPinnedImages + 1 {
		for range 2 {
			wants = append(wants, Want{Pool: "worker", Image: "quay.io/shop/many" + digest(n), By: "Pod shop/many"})
		}
	}
	made := Make("pinned", mirrors.PinnedSetGVK, wants, []*mcfgv1.MachineConfigPool{pool("infra", "worker"), pool("worker")})
	var got []string
	for _, set := range made.Sets {
		got = append(got, fmt.Sprintf("%s %d", set.Name, len(set.Spec.PinnedImages)))
		data, err := encode(set)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := mirrors.Parse(data); err != nil || !mirrors.SameSpec(o, set) {
			t.Errorf("%s cannot be read again: %v", set.Name, err)
		}
	}
	if want := "infra"; !rollout.TakesPinnedSet(pool(want, "worker"), made.Sets[0]) {
		t.Errorf("pool %s does not take %v", want, made.Sets[0].Labels)
	}
	if want := "pinned-infra-1 1, pinned-worker-1 500, pinned-worker-2 500, pinned-worker-3 1"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	left := strings.Join(made.Left, "\n")
	for _, want := range []string{"cart:v1 (Pod shop/cart, pool infra): it is named by tag", "under another name", "the API does not take the name", "nginx (", "it asks", "no such MachineConfigPool"} {
		if !strings.Contains(left, want) {
			t.Errorf("left lacks %q:\n%s", want, left)
		}
	}
}

// TestLeaveOut: what fails a set is left out, whether the settings deny it or warn, and it is said if the rest is of no use then.
func TestLeaveOut(t *testing.T) {
	image := func(n int) policy.Image { return policy.Image{Ref: "quay.io/shop/cart" + digest(n)} }
	record := review.Record{Verdict: policy.Verdict{Judgement: policy.Judgement{Findings: []policy.Finding{
		{Rule: policy.InventoryStale, Severity: policy.Deny, Reason: "pods are not known"},
		{Rule: policy.Unverified, Severity: policy.Deny, Image: image(1), Reason: "no answer"},
		{Rule: policy.PinnedImageMissing, Severity: policy.Warn, Image: image(2), Reason: "it is gone"},
		{Rule: policy.UnverifiedInFront, Severity: policy.Warn, Image: image(3), Reason: "another may answer"},
	}}}}
	wants := func(vital int) (wants []Want) {
		for n := 1; n <= 3; n++ {
			wants = append(wants, Want{Pool: "worker", Image: image(n).Ref, By: "Pod shop/cart", Vital: n == vital})
		}
		return wants
	}
	for vital, want := range []bool{false, true, true, false} {
		rest, lost := LeaveOut(wants(vital), Refused(record))
		if lost != want {
			t.Errorf("image %d is vital: got %t", vital, lost)
		}
		made := Make("pinned", mirrors.PinnedSetGVK, rest, []*mcfgv1.MachineConfigPool{pool("worker")})
		if got := made.Sets[0].Spec.PinnedImages; len(got) != 1 || string(got[0].Name) != image(3).Ref {
			t.Errorf("got %v", got)
		}
		if left := strings.Join(made.Left, "\n"); !strings.Contains(left, "Unverified: no answer") || !strings.Contains(left, "PinnedImageMissing: it is gone") {
			t.Errorf("left: %s", left)
		}
	}
}

// TestWrite: what is written is what an API server takes, size or not.
func TestWrite(t *testing.T) {
	made := Make("pinned", mirrors.PinnedSetGVK, []Want{{Pool: "worker", Image: "quay.io/shop/cart" + digest(1), By: "Pod shop/cart"}}, []*mcfgv1.MachineConfigPool{pool("worker")})
	made.Unread = UnreadOf(rollout.Cluster{Unknown: []string{"deployments", "poddisruptionbudgets", "statefulsets", "pods", "replicasets"}})
	var out strings.Builder
	if err := made.Write(&out, review.Record{}); err != nil {
		t.Fatal(err)
	}
	const missing = " could not be read, and images of theirs may be missing\n"
	want := "# Incomplete: pods" + missing + "# Incomplete: statefulsets.apps" + missing + "---\n# Pool worker: 1 image; how much they take is not known\n"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("got %s", out.String())
	}
	if errs := crd.Validate(mirrors.PinnedSetGVK, jsonOf(t, out.String()), nil); len(errs) > 0 {
		t.Error(errs)
	}
	sizes := map[string]int64{"quay.io/shop/cart" + digest(1): 3 << 29}
	if got, want := takes(made.Sets[0], sizes), "1 image; 1.5 GiB compressed, and less where they share layers. Nodes that hold none of them need 3.0 GiB and 16 GiB free"; got != want {
		t.Errorf("got %q", got)
	}
}

func jsonOf(t *testing.T, text string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(strings.TrimPrefix(text, "---\n")))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
