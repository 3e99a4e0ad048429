package inventory

import (
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// A configuration holds the objects of which a cluster has one of each.
type configuration struct {
	machines table[*operatorv1.MachineConfiguration]
	images   table[*configv1.Image]
	proxy    table[*configv1.Proxy]
	version  table[*configv1.ClusterVersion]
}

// MachineConfiguration returns MachineConfiguration cluster as
// TrimMachineConfiguration leaves it, nil if there is none. It is shared and must
// not be changed; so are those below.
func (c *Cluster) MachineConfiguration() *operatorv1.MachineConfiguration {
	return c.configuration.machines.named("cluster")
}

// ImageConfig returns image.config.openshift.io cluster as TrimImageConfig leaves
// it, nil if there is none. A review rests on Mirrors, which is read live.
func (c *Cluster) ImageConfig() *configv1.Image { return c.configuration.images.named("cluster") }

// Proxy returns proxy.config.openshift.io cluster as TrimProxy leaves it, nil if
// there is none.
func (c *Cluster) Proxy() *configv1.Proxy { return c.configuration.proxy.named("cluster") }

// ClusterVersion returns ClusterVersion version as TrimClusterVersion leaves it, nil
// if there is none.
func (c *Cluster) ClusterVersion() *configv1.ClusterVersion {
	return c.configuration.version.named("version")
}

// sources returns the sources of what is not followed for its images already, which
// is all but ClusterVersion.
func (c *configuration) sources(dyn dynamic.Interface) []*source {
	return []*source{
		single(dyn, resourceOf(operatorv1.GroupName, "v1", "machineconfigurations"), TrimMachineConfiguration, &c.machines),
		single(dyn, resourceOf(configv1.GroupName, "v1", "images"), TrimImageConfig, &c.images),
		single(dyn, resourceOf(configv1.GroupName, "v1", "proxies"), TrimProxy, &c.proxy),
	}
}

// single returns the source of the object "cluster" of a resource. It asks for this
// one only, which a role can grant by its name.
func single[T any](dyn dynamic.Interface, r schema.GroupVersionResource, trim func(*T) *T, sink sink) *source {
	s := optional(r, dyn)
	s.only("cluster")
	s.page = 1
	s.trim = decoded(trim)
	s.sink = sink
	return s
}

// decoded returns trim for objects without a type.
func decoded[T any](trim func(*T) *T) func(runtime.Object) any {
	return func(o runtime.Object) any {
		var object T
		// The API server has checked the types. Should they differ from ours all the
		// same, an object with what could be read is more than none.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.(*unstructured.Unstructured).Object, &object)
		return trim(&object)
	}
}

// TrimMachineConfiguration returns what is kept of a MachineConfiguration: what
// nodes do for a change of a file, as it is wanted and as it is in force.
func TrimMachineConfiguration(m *operatorv1.MachineConfiguration) *operatorv1.MachineConfiguration {
	t := &operatorv1.MachineConfiguration{ObjectMeta: names(m)}
	t.Spec.NodeDisruptionPolicy = m.Spec.NodeDisruptionPolicy
	t.Status.NodeDisruptionPolicyStatus = m.Status.NodeDisruptionPolicyStatus
	return t
}

// TrimImageConfig returns what is kept of an image configuration: the registry
// lists, and where the CAs are.
func TrimImageConfig(i *configv1.Image) *configv1.Image {
	t := &configv1.Image{ObjectMeta: names(i)}
	t.Spec.RegistrySources, t.Spec.AdditionalTrustedCA = i.Spec.RegistrySources, i.Spec.AdditionalTrustedCA
	return t
}

// TrimProxy returns what is kept of a proxy configuration: all but the user and the
// password that may be in its addresses.
func TrimProxy(p *configv1.Proxy) *configv1.Proxy {
	t := &configv1.Proxy{ObjectMeta: names(p), Spec: p.Spec, Status: p.Status}
	for _, address := range []*string{&t.Spec.HTTPProxy, &t.Spec.HTTPSProxy, &t.Status.HTTPProxy, &t.Status.HTTPSProxy} {
		*address = withoutUser(*address)
	}
	return t
}

// withoutUser does not parse the address: what is no URL may hold a password too.
func withoutUser(address string) string {
	scheme, rest, found := strings.Cut(address, "//")
	if !found {
		scheme, rest = "", address
	} else {
		scheme += "//"
	}
	return scheme + rest[strings.LastIndex(rest, "@")+1:]
}

// TrimClusterVersion returns what is kept of a ClusterVersion: the release, those
// before it, and whether it is being changed.
func TrimClusterVersion(v *configv1.ClusterVersion) *configv1.ClusterVersion {
	t := &configv1.ClusterVersion{ObjectMeta: names(v)}
	t.Status.Desired = configv1.Release{Version: v.Status.Desired.Version, Image: v.Status.Desired.Image}
	for _, h := range v.Status.History {
		t.Status.History = append(t.Status.History, configv1.UpdateHistory{State: h.State, Version: h.Version, Image: h.Image})
	}
	for _, c := range v.Status.Conditions {
		t.Status.Conditions = append(t.Status.Conditions, configv1.ClusterOperatorStatusCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
	}
	return t
}
