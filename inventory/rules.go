package inventory

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rules returns what a cluster role has to allow for everything in c to be read,
// and nothing more: a rule for each API group and way of reading, sorted. The
// global pull secret is not among it; that takes a role in its namespace, by
// PullSecretRule.
func (c *Cluster) Rules() []rbacv1.PolicyRule {
	followed := map[string][]string{}
	for _, s := range c.sources {
		if s.isSecret() {
			continue
		}
		r := schema.ParseGroupResource(s.name)
		followed[r.Group] = append(followed[r.Group], r.Resource)
	}
	// Mirror objects are read live, not followed.
	rules := []rbacv1.PolicyRule{
		rule("config.openshift.io", []string{"list"}, "imagedigestmirrorsets", "imagetagmirrorsets"),
		rule("operator.openshift.io", []string{"list"}, "imagecontentsourcepolicies"),
		rule("config.openshift.io", []string{"get"}, "images"),
	}
	rules[2].ResourceNames = []string{"cluster"}
	for group, resources := range followed {
		slices.Sort(resources)
		rules = append(rules, rule(group, []string{"list", "watch"}, resources...))
	}
	slices.SortStableFunc(rules, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(strings.Compare(a.APIGroups[0], b.APIGroups[0]), strings.Compare(a.Resources[0], b.Resources[0]))
	})
	return rules
}

// PullSecretRule returns what a role in namespace openshift-config has to allow
// for the global pull secret to be followed.
func PullSecretRule() rbacv1.PolicyRule {
	r := rule("", []string{"list", "watch"}, "secrets")
	r.ResourceNames = []string{pullSecretName}
	return r
}

func rule(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}
