package policy

import "testing"

func TestTagDrift(t *testing.T) {
	testDecisions(t, []decision{
		{"the tag has moved on at the mirror", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Digest: "sha256:new"}}, Settings{}, "warn TagDrift"},
	})
}

func TestTagDriftText(t *testing.T) {
	testText(t, decision{"the tag has moved on at the mirror", set(), set(itms("a", "quay.io", allow, "m.local")), tag, Facts{{Ref: "m.local/x:1"}: {Presence: Present, Digest: "sha256:new"}}, Settings{}, "warn TagDrift"}, `ImageTagMirrorSet a is admitted: it reroutes 1 of 1 image, all verified.

Warnings:

1. quay.io/x:1
   used by Deployment shop/cart (app)
   TagDrift: the tag names a different image there than the one that runs
   - m.local/x:1: sha256:new; running: sha256:old
   To do: skopeo copy --all --preserve-digests docker://quay.io/x:1 docker://m.local/x:1
`)
}
