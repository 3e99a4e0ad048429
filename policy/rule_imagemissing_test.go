package policy

import "testing"

func TestImageMissing(t *testing.T) {
	testDecisions(t, []decision{
		{"mirror lacks it, source serves: the mirror set does not keep its promise", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "deny ImageMissing"},
		{"the same, fall-back allowed", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{AllowSourceFallback: true}, "warn ImageMissing"},
		{"nobody has it, as before", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 absent"), Settings{}, "warn ImageMissing"},
		{"another mirror that lacks it, where the first lacked it too", set(itms("a", "quay.io", allow, "m.local")), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 absent", "n.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "warn ImageMissing"},
		{"mirror denies and source lacks it, so it was lost before", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 denied", "quay.io/x:1 absent"), Settings{}, "warn ImageMissing"},
		{"never to allow is a repair", set(itms("a", "quay.io", never, "m.local")), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "warn ImageMissing"},
		{"delete, source gone", set(itms("a", "quay.io", allow, "m.local")), set(), tag, facts("m.local/x:1 present", "quay.io/x:1 absent"), Settings{}, "deny ImageMissing"},
	})
}

func TestImageMissingText(t *testing.T) {
	testText(t, decision{"mirror lacks it, source serves: the mirror set does not keep its promise", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "deny ImageMissing"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   ImageMissing: no mirror on its new route has the image; only the source has it
   - m.local/x:1: not found
   - quay.io/x:1: found
   To do: skopeo copy --all --preserve-digests docker://quay.io/x:1 docker://m.local/x:1

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}
