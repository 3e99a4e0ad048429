package policy

import "testing"

func TestPlatformMissing(t *testing.T) {
	testDecisions(t, []decision{
		{"a sparse copy", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Missing: []string{"linux/arm64"}}, {Ref: "quay.io/x:1"}: {Presence: Present}}, Settings{}, "deny PlatformMissing"},
		{"as sparse as before", set(itms("a", "quay.io", allow, "n.local")), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Missing: []string{"linux/arm64"}}, {Ref: "n.local/x:1"}: {Presence: Present, Missing: []string{"linux/arm64"}}}, Settings{}, "warn PlatformMissing"},
	})
}

func TestPlatformMissingBlobsText(t *testing.T) {
	detail := "its part for linux/arm64 lacks 1 of the 3 blobs that it names (sha256:abc)"
	testText(t, decision{"a part with a hole", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Missing: []string{"linux/arm64"}, Detail: detail}, {Ref: "quay.io/x:1"}: {Presence: Present}}, Settings{}, "deny PlatformMissing"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   PlatformMissing: the copy that nodes would get lacks its part for linux/arm64
   - m.local/x:1: found, without its part for linux/arm64; its part for linux/arm64 lacks 1 of the 3 blobs that it names (sha256:abc)
   - quay.io/x:1: found
   To do: skopeo copy --all --preserve-digests docker://quay.io/x:1 docker://m.local/x:1

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}

func TestPlatformMissingText(t *testing.T) {
	testText(t, decision{"a sparse copy", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Missing: []string{"linux/arm64"}}, {Ref: "quay.io/x:1"}: {Presence: Present}}, Settings{}, "deny PlatformMissing"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   PlatformMissing: the copy that nodes would get lacks its part for linux/arm64
   - m.local/x:1: found, without its part for linux/arm64
   - quay.io/x:1: found
   To do: skopeo copy --all --preserve-digests docker://quay.io/x:1 docker://m.local/x:1

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}
