package policy

import "testing"

func TestUnverified(t *testing.T) {
	testDecisions(t, []decision{
		{"mirror unreachable, source serves", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 unreachable", "quay.io/x:1 present"), Settings{}, "deny Unverified"},
		{"nothing known", set(), set(itms("a", "quay.io", allow, "m.local")), tag, nil, Settings{}, "deny Unverified"},
		{"nothing known, by setting", set(), set(itms("a", "quay.io", allow, "m.local")), tag, nil, Settings{Severities: map[string]Severity{"Unverified": Warn}}, "warn Unverified"},
		{"mirror unreachable, source gone, so it was lost before", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 unreachable", "quay.io/x:1 absent"), Settings{}, "warn Unverified"},
		{"a second mirror that could not be asked either, before the source, while the first is down", set(itms("a", "quay.io", allow, "m.local")), set(itms("a", "quay.io", allow, "m.local", "n.local")), tag, facts("m.local/x:1 unreachable", "n.local/x:1 unreachable", "quay.io/x:1 unreachable"), Settings{}, "deny Unverified"},
		{"a mirror on the source's host denies: a pod's own pull secret may open it", set(), set(itms("a", "quay.io", allow, "quay.io/mirror")), tag, facts("quay.io/mirror/x:1 denied", "quay.io/x:1 present"), Settings{}, "deny Unverified"},
		{"delete, source unreachable", set(itms("a", "quay.io", allow, "m.local")), set(), tag, facts("m.local/x:1 present", "quay.io/x:1 unreachable"), Settings{}, "deny Unverified"},
	})
}

func TestUnverifiedText(t *testing.T) {
	testText(t, decision{"mirror unreachable, source serves", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 unreachable", "quay.io/x:1 present"), Settings{}, "deny Unverified"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   Unverified: it could not be verified that a mirror has the image; the source has it
   - m.local/x:1: could not be reached
   - quay.io/x:1: found
   To do: make the registry answer, then try again; answers that arrive late are kept for the next try

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}
