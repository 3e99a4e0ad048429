package policy

import "testing"

func TestContentMismatch(t *testing.T) {
	testDecisions(t, []decision{
		{"wrong content ends the pull though the source has it", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 mismatch", "quay.io/x:1 present"), Settings{}, "deny ContentMismatch"},
	})
}

func TestContentMismatchText(t *testing.T) {
	testText(t, decision{"wrong content ends the pull though the source has it", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 mismatch", "quay.io/x:1 present"), Settings{}, "deny ContentMismatch"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   ContentMismatch: a place on its new route answers with something else, and nodes would stop there
   - m.local/x:1: answers with something else
   - quay.io/x:1: found
   To do: remove or repair what m.local serves under m.local/x:1

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}
