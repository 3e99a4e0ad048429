package images

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

func TestPack(t *testing.T) {
	want := []Reference{
		{Image: "quay.io/a:1", Container: "app", Use: policy.Running, Digest: "sha256:1", OwnPullSecret: true},
		{Image: "quay.io/a:1", Container: "init", Use: policy.Referenced},
		{Image: "cart:1", Container: "app", Account: "default", Keeper: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Lookup: LookupAll, PullSecretUnknown: true},
		{Tag: "openshift/cli:latest", Container: "spec.source.images[0].from", Guessed: true},
		{Image: "quay.io/b:1", Container: "spec.relatedImages[0].image", Use: policy.History},
	}
	if diff := cmp.Diff(want, Pack(want).References()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
