package policy

import "testing"

func TestNoEffect(t *testing.T) {
	testDecisions(t, []decision{
		{"no mirror: no effect", set(), set(itms("a", "quay.io", never)), tag, nil, Settings{}, "warn NoEffect"},
		{"upper case never matches", set(), set(itms("a", "Quay.io/x", allow, "m.local")), tag, nil, Settings{}, "warn NoEffect"},
		{"a name without a host never matches", set(), set(itms("a", "nginx", allow, "m.local")), tag, nil, Settings{}, "warn NoEffect"},
		{"index.docker.io never matches", set(), set(itms("a", "index.docker.io", allow, "m.local")), tag, nil, Settings{}, "warn NoEffect"},
	})
}

func TestNoEffectText(t *testing.T) {
	testText(t, decision{"no mirror: no effect", set(), set(itms("a", "quay.io", never)), tag, nil, Settings{}, "warn NoEffect"}, `ImageTagMirrorSet a is admitted: it reroutes 0 of 1 image, so there was nothing to verify.

Warnings:

1. the configuration as a whole
   NoEffect: the entry for quay.io does nothing: without a mirror the generator drops it, and its mirrorSourcePolicy too
   - ImageTagMirrorSet a
   To do: name a mirror, or remove the entry
`)
}

func TestNoEffectOfItselfText(t *testing.T) {
	testText(t, decision{"the source as its own mirror: no effect", set(), set(itms("a", "quay.io", allow, "quay.io")), tag, nil, Settings{}, "warn NoEffect"}, `ImageTagMirrorSet a is admitted: it reroutes 0 of 1 image, so there was nothing to verify.

Warnings:

1. the configuration as a whole
   NoEffect: the entry for quay.io does nothing: its only mirror is the source itself, so that the generator drops it, and its mirrorSourcePolicy too
   - ImageTagMirrorSet a
   To do: name another place as the mirror, or remove the entry
`)
}
