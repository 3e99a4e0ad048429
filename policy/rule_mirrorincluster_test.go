package policy

import "testing"

func TestMirrorInCluster(t *testing.T) {
	testDecisions(t, []decision{
		{"a mirror on this cluster", set(), set(itms("a", "quay.io/x", allow, "image-registry.openshift-image-registry.svc:5000/x/x")), tag, facts("image-registry.openshift-image-registry.svc:5000/x/x:1 present"), Settings{}, "warn MirrorInCluster"},
	})
}

func TestMirrorInClusterText(t *testing.T) {
	testText(t, decision{"a mirror on this cluster", set(), set(itms("a", "quay.io/x", allow, "image-registry.openshift-image-registry.svc:5000/x/x")), tag, facts("image-registry.openshift-image-registry.svc:5000/x/x:1 present"), Settings{}, "warn MirrorInCluster"}, `ImageTagMirrorSet a is admitted: it reroutes 1 of 1 image, all verified.

Warnings:

1. the configuration as a whole
   MirrorInCluster: the mirror image-registry.openshift-image-registry.svc:5000 runs on this cluster, and is down when it is needed most
   - ImageTagMirrorSet a, source quay.io/x
   To do: use a registry outside of the cluster, at least for the platform's own images
`)
}
