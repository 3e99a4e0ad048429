package recent

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// TestLongestTimeout: every webhook that may be asked about a change counts, save the guard's.
func TestLongestTimeout(t *testing.T) {
	hook := func(name string, seconds int32, group string, resources ...string) admissionregistrationv1.ValidatingWebhook {
		w := admissionregistrationv1.ValidatingWebhook{Name: name, Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"unrelated", group}, APIVersions: []string{"v1"}, Resources: resources},
		}}}
		if seconds > 0 {
			w.TimeoutSeconds = &seconds
		}
		return w
	}
	for _, tt := range []struct {
		reason string
		hook   admissionregistrationv1.ValidatingWebhook
		want   time.Duration
	}{
		{"the guard's", hook("guard", 15, "*", "*"), 0},
		{"of another group", hook("a", 7, "apps", "*"), 0},
		{"of another resource", hook("a", 7, "config.openshift.io", "clusterversions"), 0},
		{"of a subresource", hook("a", 7, "config.openshift.io", "images/status", "*/scale"), 0},
		{"of the resource", hook("a", 7, "config.openshift.io", "pods", "images"), 7 * time.Second},
		{"of the predecessor", hook("a", 7, "operator.openshift.io", "imagecontentsourcepolicies"), 7 * time.Second},
		{"of all resources", hook("a", 3, "*", "*"), 3 * time.Second},
		{"of all resources and subresources", hook("a", 30, "*", "*/*"), 30 * time.Second},
		{"that says nothing", hook("a", 0, "config.openshift.io", "*"), 10 * time.Second},
	} {
		configurations := []admissionregistrationv1.ValidatingWebhookConfiguration{
			{Webhooks: []admissionregistrationv1.ValidatingWebhook{hook("guard", 15, "*", "*"), {Name: "without rules"}}},
			{Webhooks: []admissionregistrationv1.ValidatingWebhook{tt.hook}},
		}
		if got := longestTimeout(configurations, []string{"guard"}, mirrors.Resources()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, got, tt.want)
		}
	}
}
