package policy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
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
	router := Image{"quay.io/router:1", []Consumer{{Kind: "Deployment", Namespace: "openshift-ingress", Name: "router"}}}
	old := Image{"quay.io/router:0", []Consumer{{Kind: "ReplicaSet", Namespace: "openshift-ingress", Name: "router", Use: History}}}
	cart := Image{"quay.io/shop/cart:1", running}
	for _, tc := range []struct {
		scope BlobScope
		want  map[string]bool // by image
	}{
		{BlobsOfProtected, map[string]bool{router.Ref: true}},
		{BlobsOfAll, map[string]bool{router.Ref: true, cart.Ref: true}},
		{BlobsOfNone, nil},
	} {
		s := Settings{Blobs: tc.scope}
		plan := newPlan(Change{set(), set(itms("a", "quay.io", allow, "m.local"))}, Cluster{Images: NewImages([]Image{router, old, cart}...), Nodes: nodesOf(onePlatform)}, s)
		for _, i := range plan.Reroutes {
			for _, l := range append(i.After.Open(), i.Before.Open()...) {
				if (l.Depth == mirrors.DepthBlobs) != tc.want[i.Image.Ref] {
					t.Errorf("scope %d: %+v of %s", tc.scope, l, i.Image.Ref)
				}
			}
		}
		answered := Facts{}
		ask := func() {
			for _, l := range plan.Lookups(answered) {
				answered[l] = &Fact{Presence: Present}
			}
		}
		ask()
		if len(answered) != 3 {
			t.Errorf("scope %d: %d answers in the first round", tc.scope, len(answered))
		}
		ask() // for the platforms of what has a tag and was not read yet
		if v := plan.Decide(answered); !v.Allowed || v.Counts.Verified != 3 {
			t.Errorf("scope %d: %d answers: %+v", tc.scope, len(answered), v.Counts)
		}
	}
}

// TestManifestIsNoAnswerAboutBlobs: what is known of the manifest alone leaves open
// whether the blobs are there.
func TestManifestIsNoAnswerAboutBlobs(t *testing.T) {
	s := Settings{Blobs: BlobsOfAll}
	plan := newPlan(Change{set(), set(itms("a", "quay.io", allow, "m.local"))}, Cluster{Images: NewImages([]Image{{tag, running}}...), Nodes: nodesOf(onePlatform)}, s)
	known := Facts{{Ref: "m.local/x:1"}: {Presence: Present}}
	if q := plan.Lookups(known); len(q) != 1 || q[0] != (mirrors.Location{Ref: "m.local/x:1", Depth: mirrors.DepthBlobs}) {
		t.Errorf("lookups %+v", q)
	}
	if v := plan.Decide(known); v.Allowed || v.Findings[0].Rule != "Unverified" {
		t.Errorf("%+v", v)
	}
}

// TestBrokenCopyAsksOn: a first mirror that ends the pull makes it matter what was
// before, though a second one holds the image.
func TestBrokenCopyAsksOn(t *testing.T) {
	plan := shallow(Change{set(), set(itms("a", "quay.io", allow, "m.local", "n.local"))}, []Image{{tag, running}}, Settings{})
	q := plan.Lookups(facts("m.local/x:1 incomplete", "n.local/x:1 present"))
	if len(q) != 1 || q[0].Ref != tag {
		t.Errorf("lookups %+v, want the source", q)
	}
}
