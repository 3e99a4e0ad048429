package policy

import "testing"

func TestMirrorHidden(t *testing.T) {
	testDecisions(t, []decision{
		{"hidden mirror, source serves", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")), dig, facts("m.local/x"+digestA+" present", "quay.io/x"+digestA+" present"), Settings{}, "warn MirrorHidden"},
		{"hidden mirror, source gone", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")), dig, facts("m.local/x"+digestA+" present", "quay.io/x"+digestA+" absent"), Settings{}, "deny MirrorHidden"},
		{"hidden mirror, source unreachable", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")), dig, facts("m.local/x"+digestA+" present", "quay.io/x"+digestA+" unreachable"), Settings{}, "deny MirrorHidden"},
		{"hidden mirror that never held it", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")), dig, facts("m.local/x"+digestA+" absent", "quay.io/x"+digestA+" present"), Settings{}, "warn MirrorHidden"},
	})
}

func TestMirrorHiddenText(t *testing.T) {
	testText(t, decision{"hidden mirror, source serves", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io/x", allow, "m.local/x")), dig, facts("m.local/x"+digestA+" present", "quay.io/x"+digestA+" present"), Settings{}, "warn MirrorHidden"}, `ImageTagMirrorSet a is admitted: it reroutes 1 of 1 image, all verified.

Warnings:

1. quay.io/x@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
   used by Deployment shop/cart (app)
   MirrorHidden: the narrower source quay.io/x takes away its mirror from quay.io
   - loses m.local/x@sha256:aaaaaaaaaaaa: found
   - quay.io/x@sha256:aaaaaaaaaaaa: found
   To do: give quay.io/x, in an ImageDigestMirrorSet, the mirrors that quay.io has for pulls by digest
`)
}
