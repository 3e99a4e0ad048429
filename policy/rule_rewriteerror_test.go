package policy

import "testing"

func TestRewriteError(t *testing.T) {
	testDecisions(t, []decision{
		{"rewrite error", set(), set(itms("a", "quay.io", allow, "registry/x")), tag, facts("quay.io/x:1 present"), Settings{}, "deny RewriteError"},
	})
}

func TestRewriteErrorText(t *testing.T) {
	testText(t, decision{"rewrite error", set(), set(itms("a", "quay.io", allow, "registry/x")), tag, facts("quay.io/x:1 present"), Settings{}, "deny RewriteError"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   RewriteError: nodes could not compute where to pull it from, and would not even ask the source
   - entry quay.io, mirror "registry/x" would make it "registry/x/x:1": rewriting reference: repository name must be canonical
   To do: write source and mirror with the same ports, and the mirror as host[:port]/path with a dot or a port in the host

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}
