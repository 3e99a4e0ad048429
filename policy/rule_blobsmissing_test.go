package policy

import "testing"

func TestBlobsMissing(t *testing.T) {
	testDecisions(t, []decision{
		{"the source has it all, and nodes would not get there", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 incomplete", "quay.io/x:1 present"), Settings{}, "deny BlobsMissing"},
		{"so does the second mirror", set(), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 incomplete", "n.local/x:1 present"), Settings{}, "deny BlobsMissing"},
		{"the first mirror has it all", set(), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 present", "n.local/x:1 incomplete"), Settings{}, ""},
		{"it was so before", set(itms("a", "quay.io", allow, "m.local")), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 incomplete", "n.local/x:1 present", "quay.io/x:1 present"), Settings{}, "warn BlobsMissing"},
		{"the mirror is all there is", set(), set(itms("a", "quay.io", never, "m.local")), tag, facts("m.local/x:1 incomplete", "quay.io/x:1 present"), Settings{}, "deny NotFullySynced"},
	})
}

func TestBlobsMissingText(t *testing.T) {
	detail := "m.local serves the manifest and lacks 1 of the 3 blobs that it names (sha256:abc); nodes would stop there"
	testText(t, decision{"a copy with a hole", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Incomplete, Detail: detail}, {Ref: "quay.io/x:1"}: {Presence: Present}}, Settings{}, "deny BlobsMissing"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   BlobsMissing: a place on its new route lacks some of its blobs, and nodes would stop there
   - m.local/x:1: m.local serves the manifest and lacks 1 of the 3 blobs that it names (sha256:abc); nodes would stop there
   - quay.io/x:1: found
   To do: skopeo copy --all --preserve-digests docker://quay.io/x:1 docker://m.local/x:1

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}
