package rules

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// nodesOf returns a node of each platform.
func nodesOf(platforms []string) []*corev1.Node {
	nodes := make([]*corev1.Node, len(platforms))
	for i, p := range platforms {
		os, arch, _ := strings.Cut(p, "/")
		nodes[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: arch, Labels: map[string]string{corev1.LabelOSStable: os, corev1.LabelArchStable: arch}}}
		nodes[i].Status.NodeInfo.OperatingSystem, nodes[i].Status.NodeInfo.Architecture = os, arch
	}
	return nodes
}

var onePlatform, twoPlatforms = []string{"linux/amd64"}, []string{"linux/amd64", "linux/arm64"}

// TestDepth: of which images the blobs are looked up, and that this is asked and answered
// apart from whether there is a manifest.
func TestDepth(t *testing.T) {
	router := policy.Image{Ref: "quay.io/router:1", Consumers: []policy.Consumer{{Kind: "Deployment", Namespace: "openshift-ingress", Name: "router"}}}
	old := policy.Image{Ref: "quay.io/router:0", Consumers: []policy.Consumer{{Kind: "ReplicaSet", Namespace: "openshift-ingress", Name: "router", Use: policy.History}}}
	cart := policy.Image{Ref: "quay.io/shop/cart:1", Consumers: running}
	for _, tc := range []struct {
		scope settings.BlobScope
		want  map[string]bool // by image
	}{
		{settings.BlobsOfProtected, map[string]bool{router.Ref: true}},
		{settings.BlobsOfAll, map[string]bool{router.Ref: true, cart.Ref: true}},
		{settings.BlobsOfNone, nil},
	} {
		s := settings.Settings{Blobs: tc.scope}
		plan := newPlan(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}, plan.Cluster{Images: policy.NewImages([]policy.Image{router, old, cart}...), Nodes: nodesOf(onePlatform)}, s)
		for _, i := range plan.Reroutes {
			for _, l := range append(i.After.Open(), i.Before.Open()...) {
				if (l.Depth == mirrors.DepthBlobs) != tc.want[i.Image.Ref] {
					t.Errorf("scope %d: %+v of %s", tc.scope, l, i.Image.Ref)
				}
			}
		}
		answered := policy.Facts{}
		ask := func() {
			for _, l := range plan.Lookups(answered) {
				answered[l] = &policy.Fact{Presence: policy.Present}
			}
		}
		ask()
		if len(answered) != 3 {
			t.Errorf("scope %d: %d answers in the first round", tc.scope, len(answered))
		}
		ask() // for the platforms of what has a tag and was not read yet
		if v := Decide(plan, answered); !v.Allowed || v.Counts.Verified != 3 {
			t.Errorf("scope %d: %d answers: %+v", tc.scope, len(answered), v.Counts)
		}
	}
}

// TestManifestIsNoAnswerAboutBlobs: what is known of the manifest alone leaves open
// whether the blobs are there.
func TestManifestIsNoAnswerAboutBlobs(t *testing.T) {
	s := settings.Settings{Blobs: settings.BlobsOfAll}
	plan := newPlan(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local"))}, plan.Cluster{Images: policy.NewImages([]policy.Image{{Ref: tag, Consumers: running}}...), Nodes: nodesOf(onePlatform)}, s)
	known := policy.Facts{{Ref: "m.local/x:1"}: {Presence: policy.Present}}
	if q := plan.Lookups(known); len(q) != 1 || q[0] != (mirrors.Location{Ref: "m.local/x:1", Depth: mirrors.DepthBlobs}) {
		t.Errorf("lookups %+v", q)
	}
	if v := Decide(plan, known); v.Allowed || v.Findings[0].Rule != "Unverified" {
		t.Errorf("%+v", v)
	}
}

// TestBrokenCopyAsksOn: a first mirror that ends the pull makes it matter what was
// before, though a second one holds the image.
func TestBrokenCopyAsksOn(t *testing.T) {
	plan := shallow(policy.Change{Before: set(), After: set(itms("a", "quay.io", allow, "m.local", "n.local"))}, []policy.Image{{Ref: tag, Consumers: running}}, settings.Settings{})
	q := plan.Lookups(facts("m.local/x:1 incomplete", "n.local/x:1 present"))
	if len(q) != 1 || q[0].Ref != tag {
		t.Errorf("lookups %+v, want the source", q)
	}
}
