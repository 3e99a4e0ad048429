package recent

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientadmissionregistrationv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
)

// defaultWebhookTimeout is how long the API server waits for a webhook without timeoutSeconds.
const defaultWebhookTimeout = 10 * time.Second

// OtherWebhooks returns a function that reads how long validating webhooks other than own, by name, may
// take over a change of one of the resources, by API group ("config.openshift.io").
func OtherWebhooks(client clientadmissionregistrationv1.ValidatingWebhookConfigurationsGetter, own []string, resources map[string][]string) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		list, err := client.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, fmt.Errorf("listing validating webhooks: %w", err)
		}
		return longestTimeout(list.Items, own, resources), nil
	}
}

// longestTimeout returns the longest timeout of the webhooks that may be asked about a change,
// own excepted. Selectors by labels or namespaces, and match conditions, are ignored: the webhook
// counts as if it were asked.
func longestTimeout(configurations []admissionregistrationv1.ValidatingWebhookConfiguration, own []string, resources map[string][]string) time.Duration {
	var longest time.Duration
	for _, c := range configurations {
		for _, w := range c.Webhooks {
			if slices.Contains(own, w.Name) || !slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool { return mayMatch(r, resources) }) {
				continue
			}
			timeout := defaultWebhookTimeout
			if w.TimeoutSeconds != nil {
				timeout = time.Duration(*w.TimeoutSeconds) * time.Second
			}
			longest = max(longest, timeout)
		}
	}
	return longest
}

// mayMatch reports whether r covers one of the resources, in any version: a change in one
// version is sent to a webhook for another (matchPolicy Equivalent).
func mayMatch(r admissionregistrationv1.RuleWithOperations, resources map[string][]string) bool {
	for group, names := range resources {
		if !slices.Contains(r.APIGroups, "*") && !slices.Contains(r.APIGroups, group) {
			continue
		}
		for _, pattern := range r.Resources {
			if pattern == "*" || pattern == "*/*" || slices.Contains(names, pattern) {
				return true
			}
		}
	}
	return false
}
