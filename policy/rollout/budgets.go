package rollout

import (
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// Budget is a PodDisruptionBudget as the eviction API (EvictionREST.Create in
// pkg/registry/core/pod/storage/eviction.go of k8s.io/kubernetes) and the disruption controller
// (pkg/controller/disruption/disruption.go) read it.
type Budget struct {
	*policyv1.PodDisruptionBudget
	Selector labels.Selector
}

// NewBudgets returns budgets by namespace and name, without those of an invalid selector, which an
// eviction does not heed (getPodDisruptionBudgets).
func NewBudgets(all []*policyv1.PodDisruptionBudget) []Budget {
	var budgets []Budget
	for _, b := range all {
		if b == nil {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil {
			budgets = append(budgets, Budget{b, selector})
		}
	}
	slices.SortStableFunc(budgets, func(a, b Budget) int {
		return strings.Compare(a.Namespace+"\x00"+a.Name, b.Namespace+"\x00"+b.Name)
	})
	return budgets
}

// Covers reports whether a pod counts for b.
func (b Budget) Covers(p *Pod) bool {
	return p.Namespace == b.Namespace && p.Spec != nil && b.Selector.Matches(labels.Set(p.Spec.Labels))
}

// OwnerOf returns what makes an object, changes it, and takes it away: its controller, or its first owner (Strimzi owns
// without being the controller); nil for none.
func OwnerOf(o metav1.Object) *metav1.OwnerReference {
	owners := o.GetOwnerReferences()
	if c := metav1.GetControllerOf(o); c != nil || len(owners) == 0 {
		return c
	}
	return &owners[0]
}

// NameOf names an owner in words ("CephCluster data"), "" for none.
func NameOf(o *metav1.OwnerReference) string {
	if o == nil {
		return ""
	}
	return text.Line(o.Kind + " " + o.Name) // an author may write any kind
}

// Owner is that of b. A budget of routers belongs to their Deployment, and an IngressController makes both
// (cluster-ingress-operator, pkg/operator/controller/ingress/poddisruptionbudget.go).
func (b Budget) Owner() *metav1.OwnerReference {
	o := OwnerOf(b)
	if o != nil && o.Kind == "Deployment" && b.Namespace == "openshift-ingress" {
		if name, ok := strings.CutPrefix(o.Name, "router-"); ok {
			return &metav1.OwnerReference{APIVersion: "operator.openshift.io/v1", Kind: "IngressController", Name: name}
		}
	}
	return o
}

// Maker is the owner of b in words, "" for none. No Deployment makes budgets: what makes it does.
func (b Budget) Maker() string {
	o := b.Owner()
	if o != nil && strings.HasPrefix(o.APIVersion, "apps/") {
		return "what makes " + NameOf(o)
	}
	return NameOf(o)
}

// Beside returns the unready pods outside of b that may be why b's owner lets no pod of b go (Rook: maxUnavailable 0 for all
// other zones, pkg/operator/ceph/disruption/clusterdisruption/osd.go): those of its namespace that have a label by which it
// selects, or else all.
func (b Budget) Beside(pods []*Pod) []*Pod {
	var alike, others []*Pod
	for _, p := range pods {
		switch {
		case p.Namespace != b.Namespace || p.Ready || p.Deleted || p.Spec == nil || b.Covers(p):
		case b.selectsLike(p.Spec.Labels):
			alike = append(alike, p)
		default:
			others = append(others, p)
		}
	}
	if len(alike) > 0 {
		return alike
	}
	return others
}

func (b Budget) selectsLike(labels map[string]string) bool {
	if b.Spec.Selector != nil {
		for key, value := range b.Spec.Selector.MatchLabels {
			if has, ok := labels[key]; ok && has == value {
				return true
			}
		}
	}
	return false
}

// SparesUnready reports whether unready pods are evicted even if b allows no disruption, where
// healthy pods are healthy and desired have to be.
func (b Budget) SparesUnready(healthy, desired int) bool {
	p := b.Spec.UnhealthyPodEvictionPolicy
	return p != nil && *p == policyv1.AlwaysAllow || healthy >= desired && desired > 0
}

// SyncFailure returns why the disruption controller cannot compute the status of b, which then
// allows no disruption (failSafe); false if it can.
func (b Budget) SyncFailure() (message string, failed bool) {
	for _, c := range b.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			return c.Message, true
		}
	}
	return "", false
}

// Desired returns how many pods have to be healthy where their controllers ask for expected, and
// there are so many pods (getExpectedPodCount and updatePdbStatus). Never is why b allows no
// disruption even if more are, "" if it does.
func (b Budget) Desired(expected, pods int) (desired int, never string) {
	var err error
	switch least, most := b.Spec.MinAvailable, b.Spec.MaxUnavailable; {
	case most != nil:
		var unavailable int
		unavailable, err = intstr.GetScaledValueFromIntOrPercent(most, expected, true)
		desired = max(expected-unavailable, 0)
	case least == nil:
		return 0, "it has neither minAvailable nor maxUnavailable"
	case least.Type == intstr.Int:
		desired, expected = int(least.IntVal), pods
	default:
		desired, err = intstr.GetScaledValueFromIntOrPercent(least, expected, true)
	}
	message, failed := b.SyncFailure()
	switch {
	case err != nil:
		never = "its numbers are invalid: " + err.Error()
	case failed:
		never = "it cannot be counted: " + message
	case expected <= 0:
		never = "its pods have no controller that says how many there should be"
	}
	return desired, never
}

// Expected is how many pods the controllers of those of b ask for, by its status; 0 where it is an absolute minimum, for which the
// status counts the pods that are there, with those that have ended or are being deleted (getExpectedPodCount, getPodsForPdb).
func (b Budget) Expected() int {
	if least := b.Spec.MinAvailable; b.Spec.MaxUnavailable == nil && least != nil && least.Type == intstr.Int {
		return 0
	}
	return int(b.Status.ExpectedPods)
}

// OneMoreHelps reports whether b has room once there is a pod more than expected and healthy are: a percentage may ask for that one, too.
func (b Budget) OneMoreHelps(expected, healthy int) bool {
	desired, never := b.Desired(expected+1, healthy+1)
	return never == "" && desired <= healthy
}
