package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCredentialsMissing(t *testing.T) {
	testDecisions(t, []decision{
		{"mirror denies", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 denied", "quay.io/x:1 present"), Settings{}, "deny CredentialsMissing"},
	})
}

func TestCredentialsMissingText(t *testing.T) {
	testText(t, decision{"mirror denies", set(), set(itms("a", "quay.io", allow, "m.local")), tag, facts("m.local/x:1 denied", "quay.io/x:1 present"), Settings{}, "deny CredentialsMissing"}, `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   CredentialsMissing: no mirror on its new route lets nodes in; only the source does
   - m.local/x:1: access denied
   - quay.io/x:1: found
   To do: add credentials for m.local to Secret openshift-config/pull-secret; nodes use no others for mirrors

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`)
}

// deniedPlan is of a change to a mirror that denies the guard, of an image with users.
func deniedPlan(consumers ...Consumer) (Plan, Facts) {
	change := Change{set(), set(itms("a", "quay.io", allow, "m.local"))}
	return shallow(change, []Image{{tag, consumers}}, Settings{}), facts("m.local/x:1 denied", "quay.io/x:1 present")
}

// TestOwnPullSecret: who has set one wonders why it does not do.
func TestOwnPullSecret(t *testing.T) {
	pod := Consumer{Kind: "Pod", Namespace: "shop", Name: "cart-1", Container: "app", OwnPullSecret: true}
	deployment := Consumer{Kind: "Deployment", Namespace: "shop", Name: "cart", Container: "app", OwnPullSecret: true}
	without := Consumer{Kind: "CronJob", Namespace: "crm", Name: "nightly", Container: "run"}
	plan, found := deniedPlan(pod, deployment, without)
	want := `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by CronJob crm/nightly (run), Deployment shop/cart (app), Pod shop/cart-1 (app)
   CredentialsMissing: no mirror on its new route lets nodes in; only the source does
   - m.local/x:1: access denied
   - quay.io/x:1: found
   - the pull secrets of Deployment shop/cart (app) are for the source; nodes do not send them to m.local
   To do: add credentials for m.local to Secret openshift-config/pull-secret; nodes use no others for mirrors

Only images in namespaces crm, shop block this; if one of them should not, set namespaceSeverities in the guard's configuration: {namespace: NAMESPACE, severity: warn}.
`
	if diff := cmp.Diff(want, plan.Decide(found).Report("ImageTagMirrorSet a")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestOtherCredentials: to be denied is no proof where nodes may have credentials that
// the guard does not have, and the facts stay what they are.
func TestOtherCredentials(t *testing.T) {
	plan, found := deniedPlan(running...)
	plan.Reroutes[0].OtherCredentials = true
	want := `ImageTagMirrorSet a is refused: the one image it reroutes could not be pulled safely afterwards.

1. quay.io/x:1
   used by Deployment shop/cart (app)
   Unverified: it could not be verified that a mirror has the image; the source has it
   - m.local/x:1: access denied; nodes may have other credentials through CRIOCredentialProviderConfig
   - quay.io/x:1: found
   To do: let the guard see for itself: add credentials for m.local to Secret openshift-config/pull-secret

Only images in namespace shop block this; if they should not, set namespaceSeverities in the guard's configuration: {namespace: shop, severity: warn}.
`
	if diff := cmp.Diff(want, plan.Decide(found).Report("ImageTagMirrorSet a")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if got := found[plan.Reroutes[0].After.Mirrors()[0]]; got.Presence != Denied {
		t.Errorf("the fact has become %v", got)
	}
}

// TestOtherCredentialsNeverContactSource: the mirror is all there is, and may well do.
func TestOtherCredentialsNeverContactSource(t *testing.T) {
	change := Change{set(), set(itms("a", "quay.io", never, "m.local"))}
	plan := shallow(change, []Image{{tag, running}}, Settings{})
	found := facts("m.local/x:1 denied", "quay.io/x:1 present")
	for _, tc := range []struct {
		other  bool
		reason string
	}{
		{false, "the source may not be contacted, and no mirror lets nodes in"},
		{true, "the source may not be contacted, and no mirror could be verified to have the image"},
	} {
		plan.Reroutes[0].OtherCredentials = tc.other
		if f := plan.Decide(found).Findings[0]; f.Rule != "NotFullySynced" || f.Reason != tc.reason {
			t.Errorf("other credentials %v: %s: %s", tc.other, f.Rule, f.Reason)
		}
	}
}
