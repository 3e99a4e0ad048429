package policy

import "testing"

func TestCredentialsMissing(t *testing.T) {
	testTurns(t, []turn{
		{"mirror denies", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 denied", "quay.io/x:1 present"), Settings{}, "deny CredentialsMissing"},
	})
}

func TestCredentialsMissingText(t *testing.T) {
	testText(t, turn{"mirror denies", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 denied", "quay.io/x:1 present"), Settings{}, "deny CredentialsMissing"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   CredentialsMissing: no mirror on its new route lets nodes in; only the source does
   - m.local/x:1: access denied
   - quay.io/x:1: found
   To do: add credentials for m.local to Secret openshift-config/pull-secret
`)
}
