package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

const annotations = "machineconfiguration.openshift.io/"

// makePool makes a pool whose nodes have the role of its name: "worker", with words for what is
// not as usual: "max=2", "max=10%", "paused", "reload" (its nodes are not drained).
func makePool(words string) *mcfgv1.MachineConfigPool {
	fields := strings.Fields(words)
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: fields[0]}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" + fields[0]: ""}}
	p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: mcfgv1.MachineConfigRoleLabelKey, Operator: metav1.LabelSelectorOpIn, Values: []string{"worker", "master"}},
	}}
	for _, word := range fields[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "max":
			v := intstr.Parse(value)
			p.Spec.MaxUnavailable = &v
		case "paused":
			p.Spec.Paused = true
		case "reload":
			p.Annotations = map[string]string{"reload": ""}
		}
	}
	return p
}

// makeNode makes a node: its name and role, with words for what is not as usual: "zone=a",
// "label=key:value", "taint=key", "images=a,b", "degraded" (on its way to a config), "cordoned", "notready", "cpu=4" (cores),
// "memory=16" (GiB), "pods=250", "bare" (nothing allocatable), "kubelet=v1.35.0". Those named later are younger.
func makeNode(age int, words string) *corev1.Node {
	fields := strings.Fields(words)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fields[0], Labels: map[string]string{corev1.LabelHostname: fields[0]},
		Annotations:       map[string]string{annotations + "currentConfig": "r1", annotations + "desiredConfig": "r1", annotations + "state": "Done"},
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, age, 0, 0, time.UTC)),
	}}
	ready := corev1.ConditionTrue
	has := map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "32Gi", corev1.ResourcePods: "250"}
	for _, word := range fields[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "zone":
			n.Labels[corev1.LabelTopologyZone] = value
		case "label":
			name, text, _ := strings.Cut(value, ":")
			n.Labels[name] = text
		case "taint":
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: value, Effect: corev1.TaintEffectNoSchedule})
		case "images":
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: strings.Split(value, ",")})
		case "degraded":
			n.Annotations[annotations+"desiredConfig"], n.Annotations[annotations+"state"] = "r2", "Degraded"
		case "cordoned":
			n.Spec.Unschedulable = true
		case "notready":
			ready = corev1.ConditionFalse
		case "cpu":
			has[corev1.ResourceCPU] = value
		case "memory":
			has[corev1.ResourceMemory] = value + "Gi"
		case "pods":
			has[corev1.ResourcePods] = value
		case "bare":
			has = nil
		case "kubelet":
			n.Status.NodeInfo.KubeletVersion = value
		default:
			n.Labels["node-role.kubernetes.io/"+key] = ""
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	n.Status.Allocatable = quantities(has)
	return n
}

func quantities(of map[corev1.ResourceName]string) corev1.ResourceList {
	if of == nil {
		return nil
	}
	list := corev1.ResourceList{}
	for name, value := range of {
		list[name] = resource.MustParse(value)
	}
	return list
}

// makeSpec makes a PodSpec: its app, with words: "image=i", "always", "never", "port=80",
// "apart" (anti-affinity to its app on a host, "apart=key" in another topology), "with=app"
// (required affinity to that app on a host), "spread=key", "honor" (its nodeTaintsPolicy), "on=key:value" (nodeSelector),
// "node=w1" (affinity to its name), "tolerates=key" ("tolerates=*" for all), "cpu=1",
// "memory=4", "once", "claim=name", "priority=5" (which may preempt), "gated", "secret=a" (a pull secret
// of its own), "security=baseline", "unset=limits.cpu".
func makeSpec(words string) *rollout.PodSpec {
	fields := strings.Fields(words)
	app := fields[0]
	s := &rollout.PodSpec{Labels: map[string]string{"app": app}}
	image, pull := "", corev1.PullIfNotPresent
	requests := map[corev1.ResourceName]string{}
	affinity := &corev1.Affinity{}
	var taints *corev1.NodeInclusionPolicy
	term := func(app, key string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: cmp.Or(key, corev1.LabelHostname)}
	}
	for _, word := range fields[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "image":
			image = value
		case "always":
			pull = corev1.PullAlways
		case "never":
			pull = corev1.PullNever
		case "port":
			port := rollout.HostPort{Protocol: corev1.ProtocolTCP}
			_, _ = fmt.Sscan(value, &port.Port)
			s.HostPorts = append(s.HostPorts, port)
		case "apart":
			affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(app, value)}}
			s.Affinity = affinity
		case "with":
			affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(value, "")}}
			s.Affinity = affinity
		case "spread":
			s.Spread = append(s.Spread, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: cmp.Or(value, corev1.LabelHostname), WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			})
		case "honor":
			honor := corev1.NodeInclusionPolicyHonor
			taints = &honor
		case "on":
			name, text, _ := strings.Cut(value, ":")
			s.NodeSelector = map[string]string{name: text}
		case "node":
			affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
			}}}}
			s.Affinity = affinity
		case "tolerates":
			if value == "*" {
				value = ""
			}
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: value, Operator: corev1.TolerationOpExists})
		case "cpu":
			requests[corev1.ResourceCPU] = value
		case "memory":
			requests[corev1.ResourceMemory] = value + "Gi"
		case "claim":
			s.Claims = append(s.Claims, value)
		case "priority":
			_, _ = fmt.Sscan(value, &s.Priority)
			s.Preempts = true
		case "secret":
			s.PullSecrets = append(s.PullSecrets, value)
		case "gated":
			s.Gated = true
		case "once":
			s.Once = true
		case "security":
			s.Security = rollout.SecurityLevel(value)
		case "unset":
			s.Unset = append(s.Unset, corev1.ResourceName(value))
		}
	}
	if image != "" {
		s.Containers = []rollout.Container{{Name: "c", Image: image, Pull: pull}}
	}
	for i := range s.Spread {
		s.Spread[i].NodeTaintsPolicy = taints
	}
	s.Requests = quantities(requests)
	return s
}

// makePods makes pods of namespace app with one spec, on the nodes that are named ("" for a pod
// without one), called APP-0, ...; a node may be followed by "!unready", "!pending", "!pull"
// (ImagePullBackOff), "!deleted", "!ended" (and deleted), "!kept" (by a finalizer once it is deleted).
func makePods(owner, spec string, nodes ...string) []rollout.Pod {
	s := makeSpec(spec)
	var pods []rollout.Pod
	for i, at := range nodes {
		name, flag, _ := strings.Cut(at, "!")
		app := s.Labels["app"]
		p := rollout.Pod{Namespace: "app", Name: fmt.Sprintf("%s-%d", app, i), Node: name, Spec: s, Started: name != "", Ready: name != ""}
		if owner != "" {
			p.Owner = rollout.Owner{Kind: owner, Name: app}
		}
		switch flag {
		case "unready":
			p.Ready = false
		case "pending":
			p.Started, p.Ready = false, false
		case "pull":
			p.Started, p.Ready, p.Failing = false, false, "ImagePullBackOff"
		case "deleted":
			p.Deleted = true
		case "ended":
			p.Deleted, p.Ended = true, true
		case "kept":
			p.Finalizers = "example.com/keep"
		}
		pods = append(pods, p)
	}
	return pods
}

// makeBudget makes a budget in namespace app: its name, the app that it selects ("*" for all,
// "" for none), and "min=2", "min=50%", "max=1", "always", "expects=3" (by its status).
func makeBudget(words string) *policyv1.PodDisruptionBudget {
	fields := strings.Fields(words)
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: fields[0]}}
	for _, word := range fields[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "app":
			b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
		case "all":
			b.Spec.Selector = &metav1.LabelSelector{}
		case "min":
			v := intstr.Parse(value)
			b.Spec.MinAvailable = &v
		case "max":
			v := intstr.Parse(value)
			b.Spec.MaxUnavailable = &v
		case "always":
			policy := policyv1.AlwaysAllow
			b.Spec.UnhealthyPodEvictionPolicy = &policy
		case "expects":
			_, _ = fmt.Sscan(value, &b.Status.ExpectedPods)
		}
	}
	return b
}

// A scene is a cluster in lines: "pool ...", "node ...", "KIND N1,N2 SPEC" (pods, with KIND of
// their owner, "bare" for none; "OrderedReady" and "Parallel" are StatefulSets that are known, "owned" is one of an operator, and
// "StatefulSet" is one that is not; "refused" is a ReplicaSet that could not make its last pod), "budget ...", "volume CLAIM NODE" ("once" is one node at a time); "in NAMESPACE" is about the
// lines that follow, "enforce LEVEL VERSION" of pod security, "quota NAME RESOURCE=USED/HARD", where USED may be "?". Images are pulled by their
// name: one with "new-fails" in it fails after the change, "old-fails" before it, "fails" by
// both, "unknown" is not known; all others work.
type scene string

func (s scene) cluster(t testing.TB) rollout.Cluster {
	t.Helper()
	var c rollout.Cluster
	namespace := "app"
	for line := range strings.SplitSeq(strings.TrimSpace(string(s)), "\n") {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "", "#":
		case "pool":
			c.Pools = append(c.Pools, makePool(rest))
		case "node":
			c.Nodes = append(c.Nodes, makeNode(len(c.Nodes), rest))
		case "budget":
			rest, owner, isOwned := strings.Cut(rest, " owned=")
			b := makeBudget(rest)
			if b.Namespace = namespace; isOwned {
				b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Store", Name: owner, Controller: new(true)}}
			}
			c.Budgets = append(c.Budgets, b)
		case "in":
			namespace = rest
		case "unread":
			c.Unknown = append(c.Unknown, rest)
		case "enforce":
			level, version, _ := strings.Cut(rest, " ")
			c.Namespaces = map[string]labels.Set{namespace: {rollout.EnforceLabel: level, rollout.EnforceVersionLabel: version}}
		case "quota":
			fields := strings.Fields(rest)
			hard, used := map[corev1.ResourceName]string{}, map[corev1.ResourceName]string{}
			for _, word := range fields[1:] {
				name, numbers, _ := strings.Cut(word, "=")
				of := corev1.ResourceName(name)
				used[of], hard[of], _ = strings.Cut(numbers, "/")
				if used[of] == "?" {
					delete(used, of)
				}
			}
			c.Quotas = append(c.Quotas, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fields[0]},
				Spec:       corev1.ResourceQuotaSpec{Hard: quantities(hard)}, Status: corev1.ResourceQuotaStatus{Used: quantities(used)},
			})
		case "volume":
			fields := strings.Fields(rest)
			if c.Volumes == nil {
				c.Volumes = map[string]rollout.Volume{}
			}
			c.Volumes["app/"+fields[0]] = rollout.Volume{OneNode: slices.Contains(fields, "once"), Nodes: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: fields[1:]}},
			}}}}
		default:
			at, spec, _ := strings.Cut(rest, " ")
			switch kind {
			case "bare":
				kind = ""
			case "refused":
				kind = "ReplicaSet"
				app, _, _ := strings.Cut(spec, " ")
				c.Controllers = append(c.Controllers, rollout.Controller{
					Namespace: namespace, Owner: rollout.Owner{Kind: kind, Name: app}, Failure: "the pod is forbidden",
				})
			case "OrderedReady", "Parallel", "owned":
				app, _, _ := strings.Cut(spec, " ")
				made := rollout.Controller{Namespace: namespace, Owner: rollout.Owner{Kind: "StatefulSet", Name: app}, Parallel: kind != "OrderedReady"}
				if kind == "owned" {
					made.Maker = "Store data"
				}
				c.Controllers = append(c.Controllers, made)
				kind = "StatefulSet"
			}
			for _, p := range makePods(kind, spec, strings.Split(at, ",")...) {
				p.Namespace = namespace
				c.Pods = append(c.Pods, p)
			}
		}
	}
	return c
}

func (s scene) input(t testing.TB) Input {
	t.Helper()
	return inputFor(s.cluster(t))
}

var drained = rollout.Decision{
	Changed: []string{"/etc/containers/registries.conf"}, Drains: true,
	Actions: []operatorv1.NodeDisruptionPolicyStatusAction{{Type: operatorv1.SpecialStatusAction}},
}

// inputFor is a change that drains all pools but those that say otherwise, and pulls that go by the names of images.
func inputFor(c rollout.Cluster) Input {
	decide := func(pool string) (rollout.Decision, error) {
		d := drained
		d.Drains = !slices.ContainsFunc(c.Pools, func(p *mcfgv1.MachineConfigPool) bool {
			return p.Name == pool && metav1.HasAnnotation(p.ObjectMeta, "reload")
		})
		return d, nil
	}
	if slices.ContainsFunc(c.Pools, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == "arbiter" }) {
		c.Topology = configv1.HighlyAvailableArbiterMode
	}
	return Input{Cluster: c, Forecast: rollout.NewForecast(c, decide), Pull: byName}
}

func byName(image, _, _ string, updated bool) rollout.Pull {
	switch {
	case strings.Contains(image, "unknown"):
		return rollout.PullUnknown
	case strings.Contains(image, "new-fails"):
		return pullIf(!updated)
	case strings.Contains(image, "old-fails"):
		return pullIf(updated)
	default:
		return pullIf(!strings.Contains(image, "fails"))
	}
}

func pullIf(works bool) rollout.Pull {
	if works {
		return rollout.PullWorks
	}
	return rollout.PullFails
}

func lines[T fmt.Stringer](all []T) string {
	return strings.Join(convert.Each(all, T.String), "\n")
}
