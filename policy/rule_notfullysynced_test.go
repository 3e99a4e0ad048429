package policy

import "testing"

func TestNotFullySynced(t *testing.T) {
	testDecisions(t, []decision{
		{"never, missing", set(), set(itms("a", "quay.io", never, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "deny NotFullySynced"},
		{"never, unverified", set(), set(itms("a", "quay.io", never, "m.local")), tag, facts("m.local/x:1 unreachable", "quay.io/x:1 present"), Settings{}, "deny NotFullySynced"},
		{"allow to never with the mirror empty", set(itms("a", "quay.io", allow, "m.local")), set(itms("a", "quay.io", never, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "deny NotFullySynced"},
	})
}

func TestNotFullySyncedText(t *testing.T) {
	testText(t, decision{"never, missing", set(), set(itms("a", "quay.io", never, "m.local")), tag, facts("m.local/x:1 absent", "quay.io/x:1 present"), Settings{}, "deny NotFullySynced"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   NotFullySynced: the source may not be contacted, and no mirror has the image
   - m.local/x:1: not found
   - quay.io/x:1: blocked by the entry quay.io
   To do: skopeo copy --all --preserve-digests docker://quay.io/x:1 docker://m.local/x:1

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}
