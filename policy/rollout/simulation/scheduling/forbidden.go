package scheduling

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// addForbidden finds the pods whose replacements the API server may refuse, or which may be others. That is never certain: users
// and namespaces can be exempt, other webhooks can change a pod, and pods that end give back what they
// used of a quota.
func (w *Cluster) addForbidden() {
	quotas := map[string][]*corev1.ResourceQuota{}
	for _, q := range w.in.Cluster.Quotas {
		quotas[q.Namespace] = append(quotas[q.Namespace], q)
	}
	controllers := map[ownerKey]rollout.Controller{}
	for _, c := range w.in.Cluster.Controllers {
		controllers[ownerKey{c.Namespace, c.Owner}] = c
	}
	unread := slices.Contains(w.in.Cluster.Unknown, rollout.ControllerResources["StatefulSet"])
	byClass := make([]string, len(w.Classes))
	for i, s := range w.Classes {
		byClass[i] = s.forbidden(w.in.Cluster.Namespaces[s.namespace], quotas[s.namespace])
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		why := byClass[p.PodClass.ID]
		switch c, known := controllers[ownerKey{p.Namespace, p.Owner}]; {
		case c.Failure != "":
			why = fmt.Sprintf("may not be made: the last one that its %s was to make was refused (%s)", p.Owner.Kind, c.Failure)
		case why == "" && unread && !known && p.Owner.Kind == "StatefulSet": // see rollout.Controller.Template
			why = "may need images that are not known: its StatefulSet could not be read"
		}
		if !p.Guard && p.Owner.Kind != "" {
			p.forbidden = why
		}
	}
}

// foreseen are the reasons of the scheduler that a Placement knows, too, and that pass when it says so.
var foreseen = regexp.MustCompile(`^[0-9]+ (Insufficient |Too many pods|node\(s\) (were unschedulable|had untolerated taint|didn't (match [Pp]od|satisfy existing pods anti-affinity rules|have free ports)))`)

// unplaceable says why a pod may stay without a node whatever becomes of others, by what the scheduler says of it (FitError.Error in
// pkg/scheduler/framework/types.go): it waits for a volume or a device, or not all of the message is known. "" if nothing suggests so.
func unplaceable(message string) string {
	reasons, _, whole := strings.Cut(message+" ", ". ")
	_, each, _ := strings.Cut(reasons, " nodes are available: ")
	isOther := func(reason string) bool { return !foreseen.MatchString(reason) }
	if message == "" || whole && !slices.ContainsFunc(strings.Split(each, ", "), isOther) {
		return ""
	}
	return fmt.Sprintf("has no node (%s)", strings.TrimSpace(reasons))
}

// forbidden says why pods of the class may not be made in a namespace with such labels and quotas, ""
// if they may. The scopes of quotas are not looked at: each is taken to count all pods.
func (s *PodClass) forbidden(namespace labels.Set, quotas []*corev1.ResourceQuota) string {
	if !s.Spec.Security.Meets(namespace) {
		version := ""
		if pinned := namespace[rollout.EnforceVersionLabel]; pinned != "" {
			version = " by " + pinned
		}
		return fmt.Sprintf("may not be made: namespace %s forbids pods that are not %s%s (%s)", s.namespace, namespace[rollout.EnforceLabel], version, rollout.EnforceLabel)
	}
	for _, q := range quotas {
		for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
			hard := q.Spec.Hard[name]
			used, counted := q.Status.Used[name]
			switch {
			case !counted && s.takes(longName(name)):
				return fmt.Sprintf("may not be made: of ResourceQuota %s/%s it is not known how much of %s is used", q.Namespace, q.Name, name)
			case slices.Contains(s.Spec.Unset, longName(name)):
				return fmt.Sprintf("may not be made: ResourceQuota %s/%s wants each container to set %s", q.Namespace, q.Name, longName(name))
			case used.Cmp(hard) > 0 && s.takes(longName(name)):
				return fmt.Sprintf("may not be made: ResourceQuota %s/%s allows %s of %s, and %s are used", q.Namespace, q.Name, hard.String(), name, used.String())
			}
		}
	}
	return ""
}

// longName returns the name of a resource with "requests.", which a quota may leave out.
func longName(name corev1.ResourceName) corev1.ResourceName {
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return corev1.DefaultResourceRequestsPrefix + name
	}
	return name
}

// takes reports whether a pod of the class counts for a resource of quotas.
func (s *PodClass) takes(name corev1.ResourceName) bool {
	if name == corev1.ResourcePods || name == "count/pods" {
		return true
	}
	if request, found := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix); found {
		requested := s.Spec.Requests[corev1.ResourceName(request)]
		return !requested.IsZero()
	}
	return strings.HasPrefix(string(name), "limits.") && !slices.Contains(s.Spec.Unset, name)
}
