package workloads

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// standards are the Pod Security Standards, as the API server checks them.
var standards = sync.OnceValues(func() (policy.Evaluator, error) { return policy.NewEvaluator(policy.DefaultChecks(), nil) })

// versions are those since rollout.OldestStandards by which the standards differ. A later one may allow
// more, and which one the API server has, or a namespace asks for, is not known here.
var versions = sync.OnceValue(func() []api.Version {
	minors := []int{rollout.OldestStandards}
	for _, check := range policy.DefaultChecks() {
		for _, v := range check.Versions {
			if minor := v.MinimumVersion.Minor(); minor > rollout.OldestStandards {
				minors = append(minors, minor)
			}
		}
	}
	slices.Sort(minors)
	return each.Of(slices.Compact(minors), func(minor int) api.Version { return api.MajorMinorVersion(1, minor) })
})

// securityOf returns the strictest level that a pod meets by all versions. What is there has
// gone through admission, and its replacement will be like it.
func securityOf(pod *corev1.Pod) rollout.SecurityLevel {
	evaluator, err := standards()
	if err != nil {
		return ""
	}
	for _, level := range []rollout.SecurityLevel{rollout.Restricted, rollout.Baseline} {
		forbids := func(version api.Version) bool {
			at := api.LevelVersion{Level: api.Level(level), Version: version}
			return !policy.AggregateCheckResults(evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec)).Allowed
		}
		if !slices.ContainsFunc(versions(), forbids) {
			return level
		}
	}
	return ""
}

// asked are the resources of which a quota asks each container to say how much it takes
// (Constraints in pkg/quota/v1/evaluator/core/pods.go of k8s.io/kubernetes).
var asked = []struct {
	resource corev1.ResourceName
	is       func(corev1.ResourceRequirements) corev1.ResourceList
	name     corev1.ResourceName
}{
	{corev1.ResourceRequestsCPU, requests, corev1.ResourceCPU},
	{corev1.ResourceRequestsMemory, requests, corev1.ResourceMemory},
	{corev1.ResourceLimitsCPU, limits, corev1.ResourceCPU},
	{corev1.ResourceLimitsMemory, limits, corev1.ResourceMemory},
}

func requests(r corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }
func limits(r corev1.ResourceRequirements) corev1.ResourceList   { return r.Limits }

func unsetOf(spec *corev1.PodSpec) []corev1.ResourceName {
	var unset []corev1.ResourceName
	for _, a := range asked {
		if lacksIn(spec.Containers, a.is, a.name) || lacksIn(spec.InitContainers, a.is, a.name) {
			unset = append(unset, a.resource)
		}
	}
	return unset
}

func lacksIn(containers []corev1.Container, is func(corev1.ResourceRequirements) corev1.ResourceList, name corev1.ResourceName) bool {
	for i := range containers {
		if _, found := is(containers[i].Resources)[name]; !found {
			return true
		}
	}
	return false
}
