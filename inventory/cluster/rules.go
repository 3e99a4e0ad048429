package cluster

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Rules returns exactly what a ClusterRole has to permit for everything in c to be
// readable: a rule for each API group and set of verbs, sorted. The global pull secret is
// not included; it takes a role in its own namespace (PullSecretRule).
func (c *Inventory) Rules() []rbacv1.PolicyRule {
	followed := map[[2]string][]string{} // by group and name
	for _, s := range c.sources {
		if s.isSecret {
			continue
		}
		if s.isConfigMap {
			followed[[2]string{"", s.Object}] = []string{"configmaps"}
			continue
		}
		r := schema.ParseGroupResource(s.Name)
		followed[[2]string{r.Group, s.Object}] = append(followed[[2]string{r.Group, s.Object}], r.Resource)
	}
	// Mirror objects are read live, not followed: all of them, or one to see whether it was stored.
	read := []string{"get", "list"}
	rules := []rbacv1.PolicyRule{
		rule("config.openshift.io", "", read, "imagedigestmirrorsets", "imagetagmirrorsets"),
		rule("operator.openshift.io", "", read, "imagecontentsourcepolicies"),
		rule("config.openshift.io", "", read, "clusterimagepolicies", "imagepolicies"),
		rule("machineconfiguration.openshift.io", "", read, "pinnedimagesets"),
		rule("config.openshift.io", "cluster", []string{"get"}, "featuregates"),
		rule("config.openshift.io", "cluster", []string{"get"}, "images"),
		rule("machineconfiguration.openshift.io", mirrors.GeneratedRegistries, []string{"get"}, "machineconfigs"),
	}
	for key, resources := range followed {
		slices.Sort(resources)
		rules = append(rules, rule(key[0], key[1], []string{"list", "watch"}, resources...))
	}
	slices.SortFunc(rules, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(strings.Compare(a.APIGroups[0], b.APIGroups[0]),
			strings.Compare(a.Resources[0], b.Resources[0]), strings.Compare(a.Verbs[0], b.Verbs[0]))
	})
	return rules
}

// rule is for one object of the resources, or for all if name is "".
func rule(group, name string, verbs []string, resources ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}
