package policy

import "testing"

func TestBlockLifted(t *testing.T) {
	testDecisions(t, []decision{
		{"block lifted", set(idms("a", "quay.io", never, "m.local")), set(idms("a", "quay.io", never, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")), tag, facts("m.local/x:1 present"), Settings{}, "warn BlockLifted"},
	})
}

func TestBlockLiftedText(t *testing.T) {
	testText(t, decision{"block lifted", set(idms("a", "quay.io", never, "m.local")), set(idms("a", "quay.io", never, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")), tag, facts("m.local/x:1 present"), Settings{}, "warn BlockLifted"}, `ImageTagMirrorSet a is admitted: it reroutes 1 of 1 image, all verified.

Warnings:

1. quay.io/x:1
   used by Deployment shop/cart (app)
   BlockLifted: the narrower source quay.io/x lifts the block of quay.io: nodes may contact the source again
   - m.local/x:1: found
   - quay.io/x:1: not asked
   To do: set NeverContactSource for quay.io/x too, once a mirror serves it
`)
}
