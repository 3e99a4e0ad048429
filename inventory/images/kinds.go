package images

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IsGuessable reports whether Guess should search objects of a kind. It should not search
// those that Decode knows, those that may hold credentials, those that change all the time,
// and those whose images this cluster's nodes do not pull.
func IsGuessable(kind schema.GroupKind) bool {
	kind = CurrentKind(kind)
	if _, known := KindOf(kind); known || unsearchedGroups[kind.Group] || unsearchedKinds[kind] {
		return false
	}
	name := strings.ToLower(kind.Kind)
	return !strings.Contains(name, "secret") && !strings.Contains(name, "token") && !strings.Contains(name, "credential")
}

// unsearchedGroups are API groups whose kinds are not searched.
var unsearchedGroups = map[string]bool{
	// Hot, or without images by their nature.
	"events.k8s.io": true, "coordination.k8s.io": true, "discovery.k8s.io": true, "metrics.k8s.io": true,
	"custom.metrics.k8s.io": true, "external.metrics.k8s.io": true, "authentication.k8s.io": true,
	"authorization.k8s.io": true, "rbac.authorization.k8s.io": true, "apiregistration.k8s.io": true,
	"admissionregistration.k8s.io": true, "apiextensions.k8s.io": true, "flowcontrol.apiserver.k8s.io": true,
	"storage.k8s.io": true, "scheduling.k8s.io": true, "networking.k8s.io": true, "node.k8s.io": true,
	"certificates.k8s.io": true, "policy": true, "autoscaling": true, "wgpolicyk8s.io": true, "reports.kyverno.io": true,
	// Credentials, accounts, and requests that are not kept.
	"oauth.openshift.io": true, "user.openshift.io": true, "authorization.openshift.io": true,
	"project.openshift.io": true, "route.openshift.io": true, "security.openshift.io": true, "quota.openshift.io": true,
	"security.internal.openshift.io": true,
	// Catalogues: packages that could be installed, and images in the registry already.
	"packages.operators.coreos.com": true, "template.openshift.io": true, "image.openshift.io": true,
	"samples.operator.openshift.io": true,
	// Images that other clusters pull.
	"work.open-cluster-management.io": true,
	// Mirror configuration and signatures: names of places, not of images.
	"mirrorset-guard.io": true,
}

// unsearchedKinds are such kinds in groups that have others.
var unsearchedKinds = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}: true, {Kind: "Event"}: true, {Kind: "Endpoints"}: true, {Kind: "Node"}: true, {Kind: "Namespace"}: true, {Kind: "Service"}: true,
	{Kind: "ServiceAccount"}: true, {Kind: "PersistentVolume"}: true, {Kind: "PersistentVolumeClaim"}: true,
	{Kind: "ComponentStatus"}: true, {Kind: "Binding"}: true, {Kind: "LimitRange"}: true, {Kind: "ResourceQuota"}: true,
	{Group: "config.openshift.io", Kind: "ImageTagMirrorSet"}:               true,
	{Group: "config.openshift.io", Kind: "ImageDigestMirrorSet"}:            true,
	{Group: "config.openshift.io", Kind: "ClusterImagePolicy"}:              true,
	{Group: "config.openshift.io", Kind: "ImagePolicy"}:                     true,
	{Group: "config.openshift.io", Kind: "Image"}:                           true,
	{Group: "operator.openshift.io", Kind: "ImageContentSourcePolicy"}:      true,
	{Group: "machineconfiguration.openshift.io", Kind: "MachineConfigNode"}: true,
	{Group: "operators.coreos.com", Kind: "OLMConfig"}:                      true,
}

// IsWorthReading reports whether objects of a kind in some API group are for Decode or
// Guess. Most of a must-gather are others.
func IsWorthReading(kind string) bool { return !neverWorthReading[kind] }

var neverWorthReading = map[string]bool{
	"Event": true, "Lease": true, "Endpoints": true, "EndpointSlice": true, "CustomResourceDefinition": true,
	"PackageManifest": true, "ClusterRole": true, "ClusterRoleBinding": true, "RoleBinding": true,
}
