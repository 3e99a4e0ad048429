package serving

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A Registration is the comparison of the webhook configuration in the API server with the one that
// was installed.
type Registration struct {
	// Known is set once the webhook configuration was read, or is known not to be there.
	Known bool
	// Differences are those by which changes may pass without a review, or none can be made, each
	// in one line.
	Differences []string
	// Since is when they were first seen; zero if there are none.
	Since time.Time
}

// String describes the differences and their possible consequence; "" if there are none.
func (r Registration) String() string {
	if len(r.Differences) == 0 {
		return ""
	}
	return fmt.Sprintf("the webhooks are not registered as they were installed (%s): changes may have passed unseen since %s",
		strings.Join(r.Differences, "; "), r.Since.UTC().Format(time.RFC3339))
}

// maxNames bounds how many names a difference lists.
const maxNames = 4

// differences returns the points in which a registration is weaker than the installed one, or refuses
// more. A registration that reviews more, or the same in other words, does not differ: the order,
// labels, values that are the API server's defaults, further webhooks and rules, more time, and
// sideEffects, as the API server sends dry runs with both values. Neither does caBundle, by which the
// certificate is verified.
//
// A webhook that is registered in several configurations does what the best of these does: the API server
// asks all of them.
func differences(installed *admissionregistrationv1.ValidatingWebhookConfiguration, registered []*admissionregistrationv1.ValidatingWebhookConfiguration) []string {
	var all []string
	for _, want := range installed.Webhooks {
		found := compareAll(want, registered)
		if len(found) == 0 {
			all = append(all, want.Name+" is missing")
			continue
		}
		best := slices.MinFunc(found, func(a, b []string) int { return cmp.Compare(len(a), len(b)) })
		for _, d := range best {
			all = append(all, want.Name+": "+d)
		}
	}
	return all
}

// compareAll returns the differences of each webhook that has want's name.
func compareAll(want admissionregistrationv1.ValidatingWebhook, registered []*admissionregistrationv1.ValidatingWebhookConfiguration) [][]string {
	var all [][]string
	for _, c := range registered {
		for _, got := range c.Webhooks {
			if got.Name == want.Name {
				all = append(all, comparison{want, got}.differences())
			}
		}
	}
	return all
}

// A comparison is that of a webhook as it was installed with the one that is registered.
type comparison struct {
	want, got admissionregistrationv1.ValidatingWebhook
}

func (c comparison) differences() []string {
	var all []string
	for _, difference := range []func() string{
		c.rules, c.failurePolicy, c.matchPolicy, c.matchConditions, c.objectSelector, c.namespaceSelector, c.timeout, c.versions, c.client,
	} {
		if d := difference(); d != "" {
			all = append(all, d)
		}
	}
	return all
}

// rules names the requests that no rule matches any more.
func (c comparison) rules() string {
	missing := map[string]bool{}
	for _, rule := range c.want.Rules {
		for one := range single(rule) {
			if !slices.ContainsFunc(c.got.Rules, one.isIn) {
				missing[fmt.Sprintf("%s of %s.%s", one.operation, one.resource, one.group)] = true
			}
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "rules leave out " + text.Names(slices.Sorted(maps.Keys(missing)), maxNames)
}

// A matched is one kind of request that rules match.
type matched struct {
	operation                admissionregistrationv1.OperationType
	group, version, resource string
	scope                    admissionregistrationv1.ScopeType
}

// single yields what a rule without wildcards matches.
func single(r admissionregistrationv1.RuleWithOperations) func(func(matched) bool) {
	return func(yield func(matched) bool) {
		for _, operation := range r.Operations {
			for _, group := range r.APIGroups {
				for _, version := range r.APIVersions {
					for _, resource := range r.Resources {
						if !yield(matched{operation, group, version, resource, scopeOf(r)}) {
							return
						}
					}
				}
			}
		}
	}
}

func scopeOf(r admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ScopeType {
	if r.Scope == nil {
		return admissionregistrationv1.AllScopes
	}
	return *r.Scope
}

// isIn reports whether a rule matches m.
func (m matched) isIn(r admissionregistrationv1.RuleWithOperations) bool {
	scope := scopeOf(r)
	return slices.ContainsFunc(r.Operations, func(o admissionregistrationv1.OperationType) bool {
		return o == m.operation || o == admissionregistrationv1.OperationAll
	}) && (scope == admissionregistrationv1.AllScopes || scope == m.scope) &&
		has(r.APIGroups, m.group) && has(r.APIVersions, m.version) && (has(r.Resources, m.resource) || slices.Contains(r.Resources, "*/*"))
}

// has reports whether names hold a name, or a wildcard.
func has(names []string, name string) bool {
	return slices.Contains(names, name) || slices.Contains(names, "*")
}

func (c comparison) failurePolicy() string {
	want, got := failurePolicyOf(c.want), failurePolicyOf(c.got)
	switch {
	case want == got:
		return ""
	case got == admissionregistrationv1.Ignore:
		return "failurePolicy is Ignore, not Fail: changes are admitted if the guard does not answer"
	default:
		return "failurePolicy is Fail, not Ignore: changes are refused if the guard does not answer"
	}
}

func failurePolicyOf(w admissionregistrationv1.ValidatingWebhook) admissionregistrationv1.FailurePolicyType {
	if w.FailurePolicy == nil {
		return admissionregistrationv1.Fail
	}
	return *w.FailurePolicy
}

// matchPolicy: with Exact, a kind that is served in another version too can be changed by that.
func (c comparison) matchPolicy() string {
	if c.got.MatchPolicy == nil || *c.got.MatchPolicy == admissionregistrationv1.Equivalent {
		return ""
	}
	return fmt.Sprintf("matchPolicy is %s, not Equivalent", *c.got.MatchPolicy)
}

func (c comparison) matchConditions() string {
	names := convert.Each(c.got.MatchConditions, func(m admissionregistrationv1.MatchCondition) string { return m.Name })
	if len(names) == 0 {
		return ""
	}
	return "matchConditions may leave out any change: " + text.Names(names, maxNames)
}

func (c comparison) objectSelector() string {
	if s := c.got.ObjectSelector; s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return ""
	}
	return "objectSelector leaves out objects by their labels"
}

// namespaceSelector: objects without a namespace match any (k8s.io/apiserver,
// pkg/admission/plugin/webhook/predicates/namespace).
func (c comparison) namespaceSelector() string {
	if s := c.got.NamespaceSelector; s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return ""
	}
	var namespaced []string
	for _, rule := range c.want.Rules {
		if scopeOf(rule) != admissionregistrationv1.ClusterScope {
			namespaced = append(namespaced, rule.Resources...)
		}
	}
	if len(namespaced) == 0 {
		return ""
	}
	return "namespaceSelector leaves out namespaces: " + text.Names(namespaced, maxNames)
}

// defaultTimeout is the API server's, in seconds.
const defaultTimeout = 10

func (c comparison) timeout() string {
	seconds := func(w admissionregistrationv1.ValidatingWebhook) int32 {
		if w.TimeoutSeconds == nil {
			return defaultTimeout
		}
		return *w.TimeoutSeconds
	}
	if got, want := seconds(c.got), seconds(c.want); got < want {
		return fmt.Sprintf("timeoutSeconds is %d, not %d", got, want)
	}
	return ""
}

// versions: the API server sends the first version that it knows.
func (c comparison) versions() string {
	for _, version := range c.got.AdmissionReviewVersions {
		switch version {
		case "v1":
			return ""
		case "v1beta1":
			return "admissionReviewVersions begin with v1beta1, which the guard does not answer"
		}
	}
	return "admissionReviewVersions do not have v1"
}

// client: a guard at a URL, as outside of the cluster, cannot be told from another program.
func (c comparison) client() string {
	want, got := c.want.ClientConfig.Service, c.got.ClientConfig.Service
	if want == nil || got == nil {
		if want == nil || c.got.ClientConfig.URL == nil {
			return ""
		}
		return fmt.Sprintf("clientConfig.url is %s, not the service %s", text.Cut(text.Line(*c.got.ClientConfig.URL), maxAddress), serviceName(want))
	}
	if is, was := serviceName(got), serviceName(want); is != was && is != serviceName(byOLM(want)) {
		return fmt.Sprintf("clientConfig.service is %s, not %s", text.Cut(is, maxAddress), was)
	}
	return ""
}

// byOLM returns the Service that OLM makes instead of s for webhooks of a Deployment of the same name
// (operator-framework/api, pkg/operators/v1alpha1, WebhookDescription.GetValidatingWebhook).
func byOLM(s *admissionregistrationv1.ServiceReference) *admissionregistrationv1.ServiceReference {
	generated := s.DeepCopy()
	generated.Name += "-service"
	return generated
}

// maxAddress bounds the printed part of an address, in runes.
const maxAddress = 200

func serviceName(s *admissionregistrationv1.ServiceReference) string {
	port, path := int32(443), ""
	if s.Port != nil {
		port = *s.Port
	}
	if s.Path != nil {
		path = *s.Path
	}
	return fmt.Sprintf("%s/%s:%d%s", s.Namespace, s.Name, port, path)
}
