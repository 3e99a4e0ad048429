package policy

import "testing"

func TestNoRoute(t *testing.T) {
	testDecisions(t, []decision{
		{"never for tags cuts off digests", set(), set(itms("a", "quay.io", never, "m.local")), dig, facts("quay.io/x" + digestA + " present"), Settings{}, "deny NoRoute"},
		{"the same for what was lost before", set(), set(itms("a", "quay.io", never, "m.local")), dig, facts("quay.io/x" + digestA + " absent"), Settings{}, "warn NoRoute"},
	})
}

func TestNoRouteText(t *testing.T) {
	testText(t, decision{"never for tags cuts off digests", set(), set(itms("a", "quay.io", never, "m.local")), dig, facts("quay.io/x" + digestA + " present"), Settings{}, "deny NoRoute"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
   used by Deployment shop/cart (app)
   NoRoute: NeverContactSource blocks pulls by digest too, and they have no mirror there
   - quay.io/x@sha256:aaaaaaaaaaaa: blocked by the entry quay.io
   To do: use AllowContactingSource in ImageTagMirrorSet a, or give quay.io mirrors in an ImageDigestMirrorSet first

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}
