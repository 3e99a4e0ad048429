package policy

import "testing"

func TestRejectedByMCO(t *testing.T) {
	testTurns(t, []turn{
		{"conflicting policies", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), tag, nil, Settings{}, "deny RejectedByMCO"},
		{"conflict mended", set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), set(idms("a", "quay.io", allow, "m.local")), tag, facts("quay.io/x:1 present"), Settings{}, "warn RejectedByMCO"},
		{"conflict untouched by another change", set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local"), itms("c", "other.io", allow, "m.local")), tag, nil, Settings{}, "warn RejectedByMCO"},
		{"malformed reference", set(), set(itms("a", "quay.io", allow, "m.local")), "Quay.io/X:1", nil, Settings{}, "warn MalformedReference"},
	})
}

func TestRejectedByMCOText(t *testing.T) {
	testText(t, turn{"conflicting policies", set(idms("a", "quay.io", allow, "m.local")), set(idms("a", "quay.io", allow, "m.local"), itms("b", "quay.io", never, "m.local")), tag, nil, Settings{}, "deny RejectedByMCO"}, `ImageTagMirrorSet a is refused: the Machine Config Operator would reject the merged configuration and silently stop applying mirror changes.
- RejectedByMCO: source "quay.io" is NeverContactSource in ImageTagMirrorSet b but AllowContactingSource in ImageDigestMirrorSet a
To do: correct what is named above, then try again.
`)
}
