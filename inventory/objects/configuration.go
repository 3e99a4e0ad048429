package objects

import (
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
)

// TrimMachineConfiguration returns a MachineConfiguration with only the actions of nodes when a file
// changes, as specified and as in force.
func TrimMachineConfiguration(m *operatorv1.MachineConfiguration) *operatorv1.MachineConfiguration {
	t := &operatorv1.MachineConfiguration{ObjectMeta: names(m)}
	t.Spec.NodeDisruptionPolicy = m.Spec.NodeDisruptionPolicy
	t.Status.NodeDisruptionPolicyStatus = m.Status.NodeDisruptionPolicyStatus
	return t
}

// TrimProxy returns a proxy configuration without the user and the password that may be in its
// addresses.
func TrimProxy(p *configv1.Proxy) *configv1.Proxy {
	t := &configv1.Proxy{ObjectMeta: names(p), Spec: p.Spec, Status: p.Status}
	for _, address := range []*string{&t.Spec.HTTPProxy, &t.Spec.HTTPSProxy, &t.Status.HTTPProxy, &t.Status.HTTPSProxy} {
		*address = withoutUser(*address)
	}
	return t
}

// withoutUser does not parse the address: an invalid URL may hold a password too.
func withoutUser(address string) string {
	if scheme, rest, found := strings.Cut(address, "//"); found {
		return scheme + "//" + rest[strings.LastIndex(rest, "@")+1:]
	}
	return address[strings.LastIndex(address, "@")+1:]
}

// TrimClusterVersion returns a ClusterVersion with only the release, its channel, the releases before
// it and those that may come next, where their signatures are, and whether it is being changed.
func TrimClusterVersion(v *configv1.ClusterVersion) *configv1.ClusterVersion {
	t := &configv1.ClusterVersion{ObjectMeta: names(v)}
	t.UID = v.UID // Events are about it
	t.Spec.Channel = v.Spec.Channel
	t.Spec.DesiredUpdate = v.Spec.DesiredUpdate
	t.Spec.SignatureStores = v.Spec.SignatureStores
	t.Status.Desired = trimRelease(v.Status.Desired)
	for _, r := range v.Status.AvailableUpdates {
		t.Status.AvailableUpdates = append(t.Status.AvailableUpdates, trimRelease(r))
	}
	for _, u := range v.Status.ConditionalUpdates {
		c := configv1.ConditionalUpdate{Release: trimRelease(u.Release)}
		for _, r := range u.Risks {
			c.Risks = append(c.Risks, configv1.ConditionalUpdateRisk{Name: r.Name, URL: r.URL, Message: r.Message})
		}
		t.Status.ConditionalUpdates = append(t.Status.ConditionalUpdates, c)
	}
	for _, h := range v.Status.History {
		t.Status.History = append(t.Status.History, configv1.UpdateHistory{State: h.State, Version: h.Version, Image: h.Image})
	}
	for _, c := range v.Status.Conditions {
		t.Status.Conditions = append(t.Status.Conditions, configv1.ClusterOperatorStatusCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
	}
	return t
}

func trimRelease(r configv1.Release) configv1.Release {
	return configv1.Release{Version: r.Version, Image: r.Image, Architecture: r.Architecture}
}

// TrimInfrastructure returns an Infrastructure with only the topologies of the control plane and of the
// rest of the cluster.
func TrimInfrastructure(i *configv1.Infrastructure) *configv1.Infrastructure {
	t := &configv1.Infrastructure{ObjectMeta: names(i)}
	t.Status.ControlPlaneTopology = i.Status.ControlPlaneTopology
	t.Status.InfrastructureTopology = i.Status.InfrastructureTopology
	return t
}

// TrimClusterOperator returns a ClusterOperator with only its conditions.
func TrimClusterOperator(o *configv1.ClusterOperator) *configv1.ClusterOperator {
	t := &configv1.ClusterOperator{ObjectMeta: names(o)}
	t.Status.Conditions = o.Status.Conditions
	return t
}
