package objects

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	routev1 "github.com/openshift/api/route/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// Exposed is the kept part of an object by which workloads of the cluster are reached from outside. Routes of many clusters
// have keys in them: the reader drops all but names and addresses.
type Exposed struct {
	metav1.ObjectMeta `json:"-"` // the name, for a Store
	// Object is its kind and name: "Route quay/registry".
	Object string `json:"object"`
	// Hosts are names without a port, "*." in front of those below which all are, and addresses.
	Hosts []string `json:"hosts"`
}

// exposedBy returns what is kept of objects of a kind.
func exposedBy[P metav1.Object](kind string, hosts func(P) []string) func(P) *Exposed {
	return func(o P) *Exposed {
		return &Exposed{names(o), kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"), hosts(o)}
	}
}

// Exposing returns the objects in a Store by which workloads are reached from outside, sorted.
func Exposing(s *Store) []Exposed {
	all := convert.Each(All[*Exposed](s), func(e *Exposed) Exposed { return *e })
	slices.SortFunc(all, func(a, b Exposed) int { return strings.Compare(a.Object, b.Object) })
	return all
}

// RouteHosts returns the hosts of a Route. The API server makes Routes of Ingresses as well.
func RouteHosts(r *routev1.Route) []string {
	hosts := servedBy(r.Spec.Host, r.Spec.WildcardPolicy)
	for _, i := range r.Status.Ingress {
		hosts = append(hosts, servedBy(i.Host, i.WildcardPolicy)...)
	}
	return compact(hosts)
}

// servedBy returns the host of a Route and, by the policy Subdomain, all names beside it (openshift/api route/v1, WildcardPolicyType).
func servedBy(host string, policy routev1.WildcardPolicyType) []string {
	if _, domain, ok := strings.Cut(host, "."); ok && policy == routev1.WildcardPolicySubdomain {
		return []string{host, below(domain)}
	}
	return []string{host}
}

// IngressHosts returns the domains below which the routers of the cluster serve all names.
func IngressHosts(i *configv1.Ingress) []string {
	return compact([]string{below(i.Spec.Domain), below(i.Spec.AppsDomain)})
}

// RouterHosts returns the domain of a router.
func RouterHosts(c *operatorv1.IngressController) []string {
	return compact([]string{below(c.Spec.Domain), below(c.Status.Domain)})
}

// ServiceHosts returns the names and addresses of the load balancer of a Service, and its external addresses.
func ServiceHosts(s *corev1.Service) []string {
	hosts := slices.Clone(s.Spec.ExternalIPs)
	for _, i := range s.Status.LoadBalancer.Ingress {
		hosts = append(hosts, i.Hostname, i.IP)
	}
	return compact(hosts)
}

func below(domain string) string {
	if domain == "" {
		return ""
	}
	return "*." + domain
}

// compact returns copies of hosts in one spelling, each once.
func compact(hosts []string) []string {
	var all []string
	known := map[string]bool{"": true}
	for _, h := range hosts {
		if h = oneHost(h); !known[h] && len(h) <= maxHost {
			known[h] = true
			all = append(all, strings.Clone(h))
		}
	}
	return all
}

// maxHost is the length of a name in DNS.
const maxHost = 255

func oneHost(host string) string {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// RunsHere returns plan.Cluster.RunsHere by what all returns, which is called when first asked: most changes name no mirror, and there
// may be many Routes.
func RunsHere(all func() []Exposed) func(host string) string {
	byHost := sync.OnceValue(func() map[string]string {
		of := map[string]string{}
		for _, e := range all() {
			for _, h := range e.Hosts {
				if _, known := of[h]; !known {
					of[h] = e.Object
				}
			}
		}
		return of
	})
	return func(host string) string {
		host = oneHost(host)
		if by := byHost()[host]; by != "" {
			return by
		}
		for {
			_, domain, more := strings.Cut(host, ".")
			if !more {
				return ""
			}
			if by := byHost()["*."+domain]; by != "" {
				return by
			}
			host = domain
		}
	}
}
