package objects

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Operators are the packages of operators that a cluster has installed, by OLM and by OLM v1. They must not be changed.
type Operators struct {
	Subscriptions []*Subscription
	Extensions    []*ClusterExtension
	// Unread says why some of them could not be read, or may be missing; "" if all are known.
	Unread string
}

// A Subscription is OLM's object of that kind (operators.coreos.com/v1alpha1), with no more than which
// package of which catalog is installed. The images are in ClusterServiceVersions.
type Subscription struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              SubscriptionSpec   `json:"spec"`
	Status            SubscriptionStatus `json:"status"`
}

// A SubscriptionSpec names a package, a channel, the bundle that is installed first, and the CatalogSource that has them.
type SubscriptionSpec struct {
	Package         string `json:"name"`
	Channel         string `json:"channel"`
	StartingCSV     string `json:"startingCSV,omitempty"`
	Source          string `json:"source"`
	SourceNamespace string `json:"sourceNamespace"`
}

// A SubscriptionStatus names the ClusterServiceVersion that is installed, "" for none.
type SubscriptionStatus struct {
	InstalledCSV string `json:"installedCSV"`
}

// TrimSubscription returns s with nothing else of its metadata than its name.
func TrimSubscription(s *Subscription) *Subscription {
	return &Subscription{ObjectMeta: names(s), Spec: s.Spec, Status: s.Status}
}

// A ClusterExtension is the object of that kind of OLM v1 (olm.operatorframework.io/v1), with no more than which
// package is installed.
type ClusterExtension struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              ClusterExtensionSpec   `json:"spec"`
	Status            ClusterExtensionStatus `json:"status"`
}

// A ClusterExtensionSpec names the package to be installed, and a namespace for it.
type ClusterExtensionSpec struct {
	Namespace string                 `json:"namespace"`
	Source    ClusterExtensionSource `json:"source"`
}

// A ClusterExtensionSource is the origin of a package. All ClusterCatalogs may have it.
type ClusterExtensionSource struct {
	Catalog CatalogFilter `json:"catalog"`
}

// A CatalogFilter names a package, and which of its bundles may be installed: those of channels, none for all, and of a range
// of versions, "" for all. They have to update what is installed, unless UpgradeConstraintPolicy is SelfCertified.
type CatalogFilter struct {
	Package                 string   `json:"packageName"`
	Channels                []string `json:"channels,omitempty"`
	Version                 string   `json:"version,omitempty"`
	UpgradeConstraintPolicy string   `json:"upgradeConstraintPolicy,omitempty"`
}

// SelfCertified is the UpgradeConstraintPolicy that takes no heed of which bundle updates which.
const SelfCertified = "SelfCertified"

// A ClusterExtensionStatus names the bundle that is installed.
type ClusterExtensionStatus struct {
	Install *struct {
		Bundle InstalledBundle `json:"bundle"`
	} `json:"install,omitempty"`
}

// An InstalledBundle is one by its name and version.
type InstalledBundle struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Installed returns the bundle that is installed, whose name is "" if none is.
func (e *ClusterExtension) Installed() InstalledBundle {
	if e.Status.Install == nil {
		return InstalledBundle{}
	}
	return e.Status.Install.Bundle
}

// TrimClusterExtension returns e with nothing else of its metadata than its name.
func TrimClusterExtension(e *ClusterExtension) *ClusterExtension {
	return &ClusterExtension{ObjectMeta: names(e), Spec: e.Spec, Status: e.Status}
}
