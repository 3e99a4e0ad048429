package cluster

import (
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
)

// TestBuiltinKindsAreFollowed: a kind that gets a row in package images, and no client here, would
// be missing from every review.
func TestBuiltinKindsAreFollowed(t *testing.T) {
	for _, s := range imageSources(fake.NewClientset(), noCustom(), new(images.Index)) {
		if s.Client == nil {
			t.Errorf("%s: there is no client", s.Name)
		}
	}
}
