package policy

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// MirrorInCluster: a mirror runs on the very cluster that is about to pull from it, and to
// drain. A node that comes up while the mirror's own pod has nowhere to run cannot pull
// anything, the mirror's image included. Such a mirror is recognized by its name: a service
// (.svc), or the default route of the internal registry.
func mirrorInCluster(p Plan, _ Facts) []Finding {
	var findings []Finding
	told := map[string]bool{}
	for _, e := range p.Added {
		for _, m := range e.Mirrors {
			h := mirrors.HostOf(m)
			if told[h] || !inCluster(h) {
				continue
			}
			told[h] = true
			findings = append(findings, Finding{
				Severity: Warn, Statement: statementOf(e),
				Reason: fmt.Sprintf("the mirror %s runs on this cluster, and is down when it is needed most", h),
				Detail: []string{mirrors.NameOf(e.Object) + ", source " + e.Source},
				Remedy: []string{"use a registry outside of the cluster, at least for the platform's own images"},
			})
		}
	}
	return findings
}

func inCluster(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".svc.cluster.local") ||
		strings.HasPrefix(name, "default-route-openshift-image-registry.")
}
