package objects

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A Subscription is OLM's object of that kind (operators.coreos.com/v1alpha1), with no more than which
// package of which catalog is installed. The images are in ClusterServiceVersions.
type Subscription struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              SubscriptionSpec   `json:"spec"`
	Status            SubscriptionStatus `json:"status"`
}

// A SubscriptionSpec names a package, a channel, and the CatalogSource that has them.
type SubscriptionSpec struct {
	Package         string `json:"name"`
	Channel         string `json:"channel"`
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
