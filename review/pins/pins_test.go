package pins

import (
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/crd"
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
	made := Make("pinned", wants, []*mcfgv1.MachineConfigPool{pool("infra", "worker"), pool("worker")})
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

// TestWrite: what is written is what an API server takes, size or not.
func TestWrite(t *testing.T) {
	made := Make("pinned", []Want{{Pool: "worker", Image: "quay.io/shop/cart" + digest(1), By: "Pod shop/cart"}}, []*mcfgv1.MachineConfigPool{pool("worker")})
	var out strings.Builder
	if err := made.Write(&out, review.Record{}); err != nil {
		t.Fatal(err)
	}
	want := "---\n# Pool worker: 1 image; how much they take is not known\n"
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
