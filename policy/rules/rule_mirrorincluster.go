package rules

import (
	"fmt"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
)

// MirrorInCluster: a mirror runs on the very cluster that is about to pull from it, and to
// drain. A node that comes up while the mirror's own pod has nowhere to run cannot pull
// anything, the mirror's image included. Such a mirror is recognized by its name, that of a service
// (.svc) or of the default route of the internal registry, and by the objects that lead to what runs on the cluster: Routes,
// the domains of routers, load balancers. Where a setting makes this a denial and such objects could not be read, any mirror may be one.
func mirrorInCluster(p plan.ChangePlan, _ policy.Facts) []policy.Finding {
	var findings []policy.Finding
	told := map[string]bool{}
	for _, e := range p.Added {
		for _, m := range e.Mirrors {
			h := mirrors.HostOf(m)
			if told[h] {
				continue
			}
			told[h] = true
			f := policy.Finding{
				Severity: policy.Warn, Statement: policy.StatementOf(e),
				Reason: fmt.Sprintf("the mirror %s runs on this cluster, and is down when it is needed most", h),
				Detail: []string{mirrors.NameOf(e.Object) + ", source " + e.Source},
				Remedy: []string{"use a registry outside of the cluster, at least for the platform's own images"},
			}
			switch by, known := leadsHere(p.Plan, policy.Hostname(h)); {
			case by != "":
				f.Detail = append(f.Detail, by+" leads there")
			case !known:
				f.Reason = fmt.Sprintf("whether the mirror %s runs on this cluster is not known: %s could not be read", h, text.Names(p.Known.ExposedUnread, plan.MaxNamed))
				f.Remedy = []string{"let the guard read them"}
			case !inCluster(policy.Hostname(h)):
				continue
			}
			findings = append(findings, f)
		}
	}
	return findings
}

// leadsHere returns the object by which a host leads to what runs on this cluster, "" for none, and whether it matters that
// others could not be read.
func leadsHere(p plan.Plan, host string) (by string, known bool) {
	if p.Known.RunsHere != nil {
		by = p.Known.RunsHere(host)
	}
	return by, len(p.Known.ExposedUnread) == 0 || inCluster(host) || !p.Settings.Denies(policy.MirrorInCluster)
}

func inCluster(name string) bool {
	return strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".svc.cluster.local") ||
		strings.HasPrefix(name, "default-route-openshift-image-registry.")
}
