package objects

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

func TestTrimNodeOfNothing(t *testing.T) {
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}
	if diff := cmp.Diff(want, TrimNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0", UID: "1"}})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTrimImages: nodes that have the same image share its names, and no node has more than
// a kubelet lists.
func TestTrimImages(t *testing.T) {
	node := func(images, names int) *corev1.Node {
		n := new(corev1.Node)
		for i := range images {
			image := corev1.ContainerImage{SizeBytes: 1}
			for j := range names {
				image.Names = append(image.Names, fmt.Sprint("quay.io/a", i, ":", j))
			}
			n.Status.Images = append(n.Status.Images, image)
		}
		return TrimNode(n)
	}
	a, b := node(2, 2).Status.Images, node(2, 2).Status.Images
	want := []corev1.ContainerImage{{Names: []string{"quay.io/a0:0", "quay.io/a0:1"}}, {Names: []string{"quay.io/a1:0", "quay.io/a1:1"}}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if &a[0].Names[0] != &b[0].Names[0] {
		t.Error("the names are not shared")
	}
	if fewer := node(2, 1).Status.Images; len(fewer[0].Names) != 1 || cap(fewer[0].Names) != 1 {
		t.Errorf("images %v, want those with one name", fewer)
	}
	if many := node(60, 9).Status.Images; len(many) != maxImages || len(many[0].Names) != maxImageNames {
		t.Errorf("%d images of %d names, want %d of %d", len(many), len(many[0].Names), maxImages, maxImageNames)
	}
	if none := node(3, 0).Status.Images; none != nil {
		t.Errorf("images %v without names, want none", none)
	}
}

// TestTrimVolume: a volume that has its zone in labels alone can be used there, and on nodes without a zone. One that nobody attaches
// is not held to its access modes.
func TestTrimVolume(t *testing.T) {
	disk := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}}
	share := disk.DeepCopy()
	share.Spec.NFS = &corev1.NFSVolumeSource{}
	if kept, of := TrimVolume(disk).Spec.AccessModes, TrimVolume(share).Spec.AccessModes; len(kept) != 1 || len(of) != 0 {
		t.Errorf("access modes %v of a disk, %v of a share", kept, of)
	}
	zoned := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelFailureDomainBetaZone: "a__b", corev1.LabelTopologyRegion: "r"}}}
	selector := nodeaffinity.NewLazyErrorNodeSelector(TrimVolume(zoned).Spec.NodeAffinity.Required)
	zone, region := corev1.LabelTopologyZone, corev1.LabelTopologyRegion
	for _, there := range []map[string]string{{zone: "a", region: "r"}, {zone: "b", region: "r"}, {}} {
		if ok, err := selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: there}}); !ok || err != nil {
			t.Errorf("not on a node of %v: %v", there, err)
		}
	}
	for _, elsewhere := range []map[string]string{{zone: "c", region: "r"}, {zone: "a", region: "s"}, {zone: "a"}} {
		if ok, _ := selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: elsewhere}}); ok {
			t.Errorf("on a node of %v", elsewhere)
		}
	}
}
