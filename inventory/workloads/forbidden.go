package workloads

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// checks are those that a pod has to pass to meet a level of the Pod Security Standards by all versions since
// rollout.OldestStandards, each once. A later version may allow more, and which one the API server has, or a namespace
// asks for, is not known here. An Evaluator of package policy would run most of them again for each version.
var checks = sync.OnceValue(func() map[rollout.SecurityLevel][]policy.CheckPodFn {
	all := policy.DefaultChecks()
	oldest := api.MajorMinorVersion(1, rollout.OldestStandards)
	versions := []api.Version{oldest}
	for _, check := range all {
		for _, v := range check.Versions {
			if oldest.Older(v.MinimumVersion) {
				versions = append(versions, v.MinimumVersion)
			}
		}
	}
	type key struct {
		id    policy.CheckID
		since api.Version
	}
	levels := map[rollout.SecurityLevel][]policy.CheckPodFn{}
	for _, level := range []rollout.SecurityLevel{rollout.Baseline, rollout.Restricted} {
		known := map[key]bool{}
		for _, version := range versions {
			for _, at := range checksAt(all, level, version) {
				if k := (key{at.id, at.MinimumVersion}); !known[k] {
					known[k] = true
					levels[level] = append(levels[level], at.CheckPod)
				}
			}
		}
	}
	return levels
})

// A versionedCheck is a check as it is at a version.
type versionedCheck struct {
	id policy.CheckID
	policy.VersionedCheck
}

// checksAt returns the checks of a level at a version: those of baseline are a part of restricted unless a stricter check overrides
// them (populate in k8s.io/pod-security-admission/policy/registry.go).
func checksAt(all []policy.Check, level rollout.SecurityLevel, version api.Version) []versionedCheck {
	var at []versionedCheck
	overridden := map[policy.CheckID]bool{}
	for _, check := range all {
		if check.Level == api.LevelRestricted && level != rollout.Restricted {
			continue
		}
		later := slices.IndexFunc(check.Versions, func(v policy.VersionedCheck) bool { return version.Older(v.MinimumVersion) })
		if later < 0 {
			later = len(check.Versions)
		}
		if later > 0 {
			v := check.Versions[later-1]
			at = append(at, versionedCheck{check.ID, v})
			for _, id := range v.OverrideCheckIDs {
				overridden[id] = true
			}
		}
	}
	return slices.DeleteFunc(at, func(c versionedCheck) bool { return overridden[c.id] })
}

// securityOf returns the strictest level that a pod meets by all versions. An existing pod has gone
// through admission, and its replacement will be like it.
func securityOf(pod *corev1.Pod) rollout.SecurityLevel {
	forbids := func(check policy.CheckPodFn) bool { return !check(&pod.ObjectMeta, &pod.Spec).Allowed }
	for _, level := range []rollout.SecurityLevel{rollout.Restricted, rollout.Baseline} {
		if !slices.ContainsFunc(checks()[level], forbids) {
			return level
		}
	}
	return ""
}

// asked are the resources whose amounts a quota asks each container to state (Constraints in
// pkg/quota/v1/evaluator/core/pods.go of k8s.io/kubernetes).
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
