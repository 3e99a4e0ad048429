package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// pinSet makes a set of n images by digest, and of others, with the label of a pool.
func pinSet(name, pool string, n int, others ...string) *mcfgv1.PinnedImageSet {
	set := &mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: pool}}}
	for i := range n {
		others = append(others, fmt.Sprintf("quay.io/shop/many@sha256:%064x", i))
	}
	for _, image := range others {
		set.Spec.PinnedImages = append(set.Spec.PinnedImages, mcfgv1.PinnedImageRef{Name: mcfgv1.ImageDigestFormat(image)})
	}
	return set
}

// pinSets are n sets of a pool.
func pinSets(pool string, n int) []mirrors.Object {
	var sets []mirrors.Object
	for i := range n {
		sets = append(sets, pinSet(fmt.Sprintf("%s-%03d", pool, i), pool, 1))
	}
	return sets
}

// TestPinnedImageMissing: what is said of sets that MCO cannot give to nodes, and of those that were so before.
func TestPinnedImageMissing(t *testing.T) {
	worker := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Spec: mcfgv1.MachineConfigPoolSpec{
		MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: "worker"}},
	}}
	hundred, one := pinSets("worker", rollout.MaxPinnedSets), []mirrors.Object{pinSet("shop", "worker", 1)}
	// What each of the findings names.
	const tooMany, aTag, noRoom, noPool, unknown = "501 images", "spec.pinnedImages[0].name", "101 sets", "oc label pinnedimageset shop", "machineconfigpools"
	for _, tt := range []struct {
		reason        string
		before, after []mirrors.Object
		blind         bool // pools could not be read
		want          []string
	}{
		{"as many as it may", nil, []mirrors.Object{pinSet("shop", "worker", 500)}, false, nil},
		{"501 images", nil, []mirrors.Object{pinSet("shop", "worker", 501)}, false, []string{"deny " + tooMany}},
		{"one more image than before", []mirrors.Object{pinSet("shop", "worker", 500)}, []mirrors.Object{pinSet("shop", "worker", 501)}, false, []string{"deny " + tooMany}},
		{"one of 502 is taken away", []mirrors.Object{pinSet("shop", "worker", 502)}, []mirrors.Object{pinSet("shop", "worker", 501)}, false, []string{"warn " + tooMany}},
		{"a tag", one, []mirrors.Object{pinSet("shop", "worker", 1, "quay.io/shop/cart:v1")}, false, []string{"deny " + aTag}},
		{"a tag that was there", []mirrors.Object{pinSet("shop", "worker", 0, "quay.io/shop/cart:v1")}, []mirrors.Object{pinSet("shop", "worker", 1, "quay.io/shop/cart:v1")}, false, []string{"warn " + aTag}},
		{"both", nil, []mirrors.Object{pinSet("shop", "worker", 500, "quay.io/shop/cart:v1")}, false, []string{"deny " + tooMany, "deny " + aTag}},
		{"the hundredth set of a pool", hundred[1:], append(one, hundred[1:]...), false, nil},
		{"the hundred and first", hundred, append(one, hundred...), false, []string{"deny " + noRoom}},
		{"a change of one of 101", append(one, hundred...), append([]mirrors.Object{pinSet("shop", "worker", 2)}, hundred...), false, []string{"warn " + noRoom}},
		{"that goes to the pool", append([]mirrors.Object{pinSet("shop", "infra", 1)}, hundred...), append(one, hundred...), false, []string{"deny " + noRoom}},
		{"sets of other pools", nil, append(one, pinSets("infra", 100)...), false, nil},
		{"no pool takes it", nil, []mirrors.Object{pinSet("shop", "infra", 1)}, false, []string{"warn " + noPool}},
		{"whether a pool takes it is not known", nil, append(one, hundred...), true, []string{"warn " + unknown}},
		{"a set that does not change", one, one, false, nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			cluster := &rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{worker}}
			if tt.blind {
				cluster.Unknown = []string{"machineconfigpools"}
			}
			p := plan.ChangePlan{Plan: plan.Plan{Known: &plan.Cluster{Rollout: cluster}}}
			p.Change.Before.Pinned, p.Change.After.Pinned = tt.before, tt.after
			var got []string
			for _, f := range pinnedImageMissing(p, policy.Facts{}) {
				if f.Statement.Objects[0] != "PinnedImageSet shop" {
					continue
				}
				got = append(got, f.Severity.String()+" "+strings.Join(append(append([]string{f.Reason}, f.Detail...), f.Remedy...), "; "))
			}
			if !slices.EqualFunc(got, tt.want, func(got, want string) bool {
				severity, part, _ := strings.Cut(want, " ")
				return strings.HasPrefix(got, severity+" ") && strings.Contains(got, part)
			}) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestPinsThatDoNotFit: a set that MCO refuses for its size is denied where that is proved, and a warning where it may be so.
func TestPinsThatDoNotFit(t *testing.T) {
	ref, index, other := "quay.io/shop/a@sha256:"+strings.Repeat("a", 64), "quay.io/shop/b@sha256:"+strings.Repeat("b", 64), "quay.io/shop/c@sha256:"+strings.Repeat("c", 64)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Spec: mcfgv1.MachineConfigPoolSpec{
		MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: "worker"}},
		NodeSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/worker": ""}},
	}}
	for _, tt := range []struct {
		reason string
		gib    int64  // of the image
		room   string // of the node
		lists  []string
		used   bool // by a Deployment
		images []string
		want   string
	}{
		{"it fits", 10, "40Gi", nil, false, []string{ref}, ""},
		{"twice of it is all that there is", 12, "40Gi", nil, false, []string{ref}, "deny"},
		{"the node has it", 12, "40Gi", []string{ref}, false, []string{ref}, ""},
		{"the node has another", 12, "40Gi", []string{index}, true, []string{ref}, "deny"},
		{"the node may have it", 12, "40Gi", nil, true, []string{ref}, "warn"},
		{"no node can have it", 60, "40Gi", nil, true, []string{ref}, "deny"},
		{"two that may share layers", 6, "40Gi", nil, false, []string{ref, other}, "warn"},
		{"an index, of which MCO counts nothing", 60, "40Gi", nil, false, []string{index}, ""},
		{"sizes are not known", 0, "40Gi", nil, false, []string{ref}, ""},
		{"the node is not known", 60, "", nil, false, []string{ref}, ""},
		{"a node without the room that MCO wants free", 0, "10Gi", nil, false, []string{ref}, "deny"},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}}
		if tt.room != "" {
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(tt.room)}
		}
		if tt.lists != nil {
			node.Status.Images = []corev1.ContainerImage{{Names: tt.lists}}
		}
		known := plan.Cluster{Nodes: []*corev1.Node{node}, Rollout: &rollout.Cluster{Pools: []*mcfgv1.MachineConfigPool{pool}, Nodes: []*corev1.Node{node}}}
		if tt.used {
			known.Images = policy.NewImages(policy.Image{Ref: ref, Consumers: []policy.Consumer{{Kind: "Deployment", Use: policy.Referenced}}})
		}
		p := newPlan(policy.Change{After: mirrors.Set{Pinned: []mirrors.Object{pinSet("shop", "worker", 0, tt.images...)}}}, known, settings.Settings{})
		facts := policy.Facts{}
		for _, r := range p.Reroutes {
			for _, l := range r.After.Open() {
				facts[l] = &policy.Fact{Presence: policy.Present, Size: tt.gib << 30}
				if r.Image.Ref == index {
					facts[l].Children = []string{"sha256:dd"}
				}
			}
		}
		got := ""
		for _, f := range pinnedImageMissing(p, facts) {
			got += f.Severity.String()
		}
		if got != tt.want || len(p.Reroutes) != len(tt.images) {
			t.Errorf("%s: %q, want %q; %d images", tt.reason, got, tt.want, len(p.Reroutes))
		}
	}
}
