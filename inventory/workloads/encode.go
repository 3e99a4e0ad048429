package workloads

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A podSpec is a rollout.PodSpec in JSON. Equal ones are equal byte by byte.
type podSpec struct {
	Labels       map[string]string                 `json:"labels,omitempty"`
	Containers   []container                       `json:"containers,omitempty"`
	NodeSelector map[string]string                 `json:"nodeSelector,omitempty"`
	Affinity     *corev1.Affinity                  `json:"affinity,omitempty"`
	Tolerations  []corev1.Toleration               `json:"tolerations,omitempty"`
	Spread       []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	HostPorts    []hostPort                        `json:"hostPorts,omitempty"`
	Requests     corev1.ResourceList               `json:"requests,omitempty"`
	Claims       []string                          `json:"claims,omitempty"`
	EmptyDir     bool                              `json:"emptyDir,omitempty"`
	Priority     int32                             `json:"priority,omitempty"`
	Preempts     bool                              `json:"preempts,omitempty"`
	GracePeriod  int64                             `json:"gracePeriodSeconds"`
	Gated        bool                              `json:"gated,omitempty"`
	Scheduler    string                            `json:"schedulerName,omitempty"`
	OwnSecrets   bool                              `json:"ownPullSecret,omitempty"`
}

type container struct {
	Name  string            `json:"name,omitempty"`
	Image string            `json:"image"`
	Pull  corev1.PullPolicy `json:"imagePullPolicy"`
}

type hostPort struct {
	IP       string          `json:"ip,omitempty"`
	Protocol corev1.Protocol `json:"protocol"`
	Port     int32           `json:"port"`
}

func encodeSpec(s *rollout.PodSpec) podSpec {
	return podSpec{
		Labels: s.Labels, Containers: each(s.Containers, func(c rollout.Container) container { return container(c) }),
		NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, Spread: s.Spread,
		HostPorts: each(s.HostPorts, func(p rollout.HostPort) hostPort { return hostPort(p) }),
		Requests:  s.Requests, Claims: s.Claims, EmptyDir: s.EmptyDir, Priority: s.Priority, Preempts: s.Preempts,
		GracePeriod: int64(s.GracePeriod / time.Second), Gated: s.Gated, Scheduler: s.Scheduler, OwnSecrets: s.OwnSecrets,
	}
}

func decodeSpec(s *podSpec) rollout.PodSpec {
	return rollout.PodSpec{
		Labels: noneIfEmpty(s.Labels), Containers: each(s.Containers, func(c container) rollout.Container { return rollout.Container(c) }),
		NodeSelector: noneIfEmpty(s.NodeSelector), Affinity: s.Affinity, Tolerations: s.Tolerations, Spread: s.Spread,
		HostPorts: each(s.HostPorts, func(p hostPort) rollout.HostPort { return rollout.HostPort(p) }),
		Requests:  noneIfEmpty(s.Requests), Claims: s.Claims, EmptyDir: s.EmptyDir, Priority: s.Priority, Preempts: s.Preempts,
		GracePeriod: time.Duration(s.GracePeriod) * time.Second, Gated: s.Gated, Scheduler: s.Scheduler, OwnSecrets: s.OwnSecrets,
	}
}

func each[A, B any](all []A, of func(A) B) []B {
	if len(all) == 0 {
		return nil
	}
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = of(a)
	}
	return out
}
