package rules

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// TestAsPulled: who has nodes pull nothing is history, and nobody else.
func TestAsPulled(t *testing.T) {
	neverPulls := func(c *policy.Consumer) { c.NeverPulls = true }
	ending := func(c *policy.Consumer) { c.Ending = true }
	for _, tc := range []struct {
		name     string
		consumer func(*policy.Consumer)
		router   bool
		policy   bool
		known    plan.Cluster
		want     string
	}{
		{"it pulls", func(*policy.Consumer) {}, false, false, plan.Cluster{}, "deny NotFullySynced"},
		{"it never pulls", neverPulls, false, false, plan.Cluster{}, "warn NotFullySynced"},
		{"it never pulls, and its signature is asked for", neverPulls, false, true, plan.Cluster{}, "deny NotFullySynced"},
		{"it is being deleted", ending, false, false, plan.Cluster{}, "warn NotFullySynced"},
		{"a router is being deleted", ending, true, false, plan.Cluster{}, "deny NotFullySynced"},
		{"its namespace is being deleted", func(*policy.Consumer) {}, false, false, plan.Cluster{EndingNamespaces: map[string]bool{"shop": true}}, "warn NotFullySynced"},
		{"another namespace is", func(*policy.Consumer) {}, false, false, plan.Cluster{EndingNamespaces: map[string]bool{"shop2": true}}, "deny NotFullySynced"},
		{"that of the routers is", func(*policy.Consumer) {}, true, false, plan.Cluster{EndingNamespaces: map[string]bool{"openshift-ingress": true}}, "deny NotFullySynced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := consumers(tc.consumer)
			if tc.router {
				c = consumers(isRouter, tc.consumer)
			}
			before := set()
			if tc.policy {
				before = mirrors.Put(signedBy(release, "quay.io/x")).Apply(before)
			}
			tc.known.Images = policy.NewImages(policy.Image{Ref: tag, Consumers: c})
			plan := newPlan(policy.Change{Before: before, After: mirrors.Put(itms("a", "quay.io", never, "m.local")).Apply(before)}, tc.known, settings.Settings{})
			facts := policy.Facts{}
			for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
				for _, l := range lookups {
					facts[l] = &policy.Fact{Presence: policy.Absent, AsNodes: true}
					if l.Host() == "quay.io" {
						facts[l] = &policy.Fact{Presence: policy.Present, AsNodes: true, Digest: sumA, MediaType: "application/vnd.oci.image.manifest.v1+json", Signatures: &signing.Signatures{All: []signing.Signature{release.Sign("quay.io/x:1", sumA)}}}
					}
				}
			}
			if got := summary(Decide(plan, facts)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if c[0].Use == policy.History {
				t.Error("the inventory's own consumer was changed")
			}
		})
	}
}

// TestNeverRan: a miss at the source counts for pull secrets of a namespace none of whose pods has had the image,
// if that is known.
func TestNeverRan(t *testing.T) {
	pod := func(c *policy.Consumer) { c.Kind, c.Use, c.OwnPullSecret = "Pod", policy.Running, true }
	dead := func(c *policy.Consumer) { pod(c); c.NeverRan = true }
	ended := func(c *policy.Consumer) { pod(c); c.Use = policy.History }
	elsewhere := func(c *policy.Consumer) { c.Namespace = "other" }
	unknown := func(c *policy.Consumer) { c.PullSecretUnknown = true }
	for _, tc := range []struct {
		name      string
		consumers []policy.Consumer
		want      string
	}{
		{"a pod waits for it", consumers(dead), "warn NotFullySynced"},
		{"a Deployment names it", consumers(withSecret), "warn NotFullySynced"},
		{"with a service account that is not known", consumers(withSecret, unknown), "warn NotFullySynced"},
		{"a pod runs it", append(consumers(withSecret), consumers(pod)...), "deny NotFullySynced"},
		{"a pod has run it", append(consumers(withSecret), consumers(ended)...), "deny NotFullySynced"},
		{"a pod runs it without a secret, elsewhere", append(consumers(withSecret), policy.Consumer{Kind: "Pod", Namespace: "other", Use: policy.Running}), "warn NotFullySynced"},
		{"a pod runs it with a secret, elsewhere", append(consumers(dead), consumers(pod, elsewhere)...), "deny NotFullySynced"},
		{"a router waits for it", consumers(dead, isRouter), "deny NotFullySynced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			verdict := func(known plan.Cluster) string {
				known.Images = policy.NewImages(policy.Image{Ref: tag, Consumers: tc.consumers})
				plan := newPlan(policy.Change{Before: set(), After: set(itms("a", "quay.io", never, "m.local"))}, known, settings.Settings{})
				facts := policy.Facts{}
				for lookups := plan.Lookups(facts); len(lookups) > 0; lookups = plan.Lookups(facts) {
					for _, l := range lookups {
						facts[l] = &policy.Fact{Presence: policy.Absent, AsNodes: true}
					}
				}
				return summary(Decide(plan, facts))
			}
			if got := verdict(plan.Cluster{PodsListed: plan.InEveryNamespace}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			for what, known := range map[string]plan.Cluster{"not listed": {}, "of another namespace": {PodsListed: func(namespace string) bool { return namespace == "elsewhere" }}, "out of date": {PodsListed: plan.InEveryNamespace, Gaps: []policy.Gap{{Kind: "Pod"}}}} {
				if got := verdict(known); !strings.Contains(got, "deny NotFullySynced") {
					t.Errorf("pods are %s: %q", what, got)
				}
			}
		})
	}
}
