package mirrors

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMeant(t *testing.T) {
	for _, tc := range []struct {
		name, version, kind string
		want                string // "" for a stranger's kind, or one that Parse reads
	}{
		{"as it should be", "config.openshift.io/v1", "ImageTagMirrorSet", ""},
		{"another version", "config.openshift.io/v1alpha1", "ImageTagMirrorSet", "ImageTagMirrorSet"},
		{"the group of the older kind", "operator.openshift.io/v1alpha1", "ImageDigestMirrorSet", "ImageDigestMirrorSet"},
		{"the group of the newer kinds", "config.openshift.io/v1", "ImageContentSourcePolicy", "ImageContentSourcePolicy"},
		{"no version at all", "", "ImageTagMirrorSet", "ImageTagMirrorSet"},
		{"letters in another case", "config.openshift.io/v1", "ImageTagMirrorset", "ImageTagMirrorSet"},
		{"another version of the cluster's configuration", "config.openshift.io/v2", "Image", "Image"},
		{"an image of the internal registry", "image.openshift.io/v1", "Image", ""},
		{"somebody else's", "v1", "ConfigMap", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := Meant(schema.FromAPIVersionAndKind(tc.version, tc.kind))
			if got.Kind != tc.want || ok != (tc.want != "") {
				t.Errorf("got %v, %v, want %q", got, ok, tc.want)
			}
		})
	}
}
