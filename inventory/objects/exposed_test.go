package objects

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	routev1 "github.com/openshift/api/route/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestRunsHere: a host is found by the names that objects expose, whatever its spelling.
func TestRunsHere(t *testing.T) {
	route, ingress, router, service := &routev1.Route{}, &configv1.Ingress{}, &operatorv1.IngressController{}, &corev1.Service{}
	route.Spec.Host = "Registry.example.com"
	route.Status.Ingress = []routev1.RouteIngress{{Host: "any.wild.example.com", WildcardPolicy: routev1.WildcardPolicySubdomain}}
	service.Spec.ExternalIPs = []string{"192.0.2.9"}
	ingress.Spec.Domain, ingress.Spec.AppsDomain = "apps.example.com", "applications.example.com"
	router.Status.Domain = "internal.example.com"
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}, {IP: "2001:DB8::7"}, {Hostname: "lb.cloud.example"}}
	all := []Exposed{
		{Object: "route", Hosts: RouteHosts(route)},
		{Object: "ingress", Hosts: IngressHosts(ingress)},
		{Object: "router", Hosts: RouterHosts(router)},
		{Object: "service", Hosts: ServiceHosts(service)},
		{Object: "none", Hosts: ServiceHosts(&corev1.Service{})},
	}
	runs := RunsHere(func() []Exposed { return all })
	for host, want := range map[string]string{
		"registry.example.com": "route", "REGISTRY.example.com.": "route", "a.registry.example.com": "", "registry.example.org": "",
		"quay.apps.example.com": "ingress", "a.b.applications.example.com": "ingress", "apps.example.com": "", "myapps.example.com": "",
		"quay.internal.example.com": "router", "192.0.2.7": "service", "2001:db8:0::7": "service", "192.0.2.8": "", "192.0.2.9": "service", "quay.wild.example.com": "route", "lb.cloud.example": "service", "": "",
	} {
		if got := runs(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
