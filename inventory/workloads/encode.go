package workloads

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A podSet is some pods of one owner with one spec, as dumps have them: the spec is there
// once.
type podSet struct {
	Namespace string  `json:"namespace"`
	Owner     *owner  `json:"owner,omitempty"`
	Spec      podSpec `json:"spec"`
	Pods      []pod   `json:"pods"`
}

type owner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// A pod is the part of a rollout.Pod that it does not share with the others of its podSet.
type pod struct {
	Name    string    `json:"name"`
	Node    string    `json:"node,omitempty"`
	Started bool      `json:"started,omitempty"`
	Ready   bool      `json:"ready,omitempty"`
	Deleted bool      `json:"deleted,omitempty"`
	Ended   bool      `json:"ended,omitempty"`
	Static  bool      `json:"static,omitempty"`
	Failing string    `json:"failing,omitempty"`
	Created time.Time `json:"created,omitzero"`

	FailingContainer string    `json:"failingContainer,omitempty"`
	Detail           string    `json:"detail,omitempty"`
	Ends             time.Time `json:"ends,omitzero"`
	Finalizers       string    `json:"finalizers,omitempty"`
}

// Sets yields pods as they are written to a dump, in JSON, for Table.PutSet: the same for
// the same pods. They are in groups of one spec each.
func Sets(pods []rollout.Pod) iter.Seq[any] {
	type group struct {
		namespace string
		owner     rollout.Owner
		spec      *rollout.PodSpec
	}
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b rollout.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	rows := map[group]int{}
	var sets []*podSet
	for i := range sorted {
		p := &sorted[i]
		key := group{p.Namespace, p.Owner, p.Spec}
		row, known := rows[key]
		if !known {
			row = len(sets)
			rows[key] = row
			set := &podSet{Namespace: p.Namespace, Spec: encodeSpec(p.Spec)}
			if p.Owner != (rollout.Owner{}) {
				set.Owner = new(owner(p.Owner))
			}
			sets = append(sets, set)
		}
		sets[row].Pods = append(sets[row].Pods, pod{p.Name, p.Node, p.Started, p.Ready, p.Deleted, p.Ended, p.Static, p.Failing, p.Created, p.FailingContainer, p.Detail, p.Ends, p.Finalizers})
	}
	return slices.Values(convert.Each(sets, func(set *podSet) any { return set }))
}

// PutSet enters pods from a dump, as Sets wrote them. Nothing is entered if there is an
// error.
func (t *Table) PutSet(data []byte) error {
	var set podSet
	if err := strictjson.Unmarshal(data, &set); err != nil {
		return err
	}
	if slices.ContainsFunc(set.Pods, func(p pod) bool { return p.Name == "" }) {
		return errors.New("a pod without a name")
	}
	var of rollout.Owner
	if set.Owner != nil {
		of = rollout.Owner(*set.Owner)
	}
	spec := t.share(decodeSpec(&set.Spec))
	for _, p := range set.Pods {
		t.Put(t.named(rollout.Pod{
			Namespace: set.Namespace, Name: p.Name, Node: p.Node, Owner: of, Spec: spec,
			Started: p.Started, Ready: p.Ready, Deleted: p.Deleted, Ended: p.Ended, Static: p.Static, Failing: p.Failing, Created: p.Created.UTC(),
			FailingContainer: p.FailingContainer, Detail: p.Detail, Ends: p.Ends.UTC(), Finalizers: p.Finalizers,
		}))
	}
	return nil
}

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
	Priority     int32                             `json:"priority,omitempty"`
	Preempts     bool                              `json:"preempts,omitempty"`
	GracePeriod  int64                             `json:"gracePeriodSeconds"`
	Gated        bool                              `json:"gated,omitempty"`
	Once         bool                              `json:"once,omitempty"`
	Scheduler    string                            `json:"schedulerName,omitempty"`
	PullSecrets  []string                          `json:"pullSecrets,omitempty"`
	Security     rollout.SecurityLevel             `json:"security,omitempty"`
	Unset        []corev1.ResourceName             `json:"unset,omitempty"`
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
		Labels: s.Labels, Containers: convert.Each(s.Containers, func(c rollout.Container) container { return container(c) }),
		NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, Spread: s.Spread,
		HostPorts: convert.Each(s.HostPorts, func(p rollout.HostPort) hostPort { return hostPort(p) }),
		Requests:  s.Requests, Claims: s.Claims, Priority: s.Priority, Preempts: s.Preempts,
		GracePeriod: int64(s.GracePeriod / time.Second), Gated: s.Gated, Once: s.Once, Scheduler: s.Scheduler, PullSecrets: s.PullSecrets,
		Security: s.Security, Unset: s.Unset,
	}
}

func decodeSpec(s *podSpec) rollout.PodSpec {
	return rollout.PodSpec{
		Labels: noneIfEmpty(s.Labels), Containers: convert.Each(s.Containers, func(c container) rollout.Container { return rollout.Container(c) }),
		NodeSelector: noneIfEmpty(s.NodeSelector), Affinity: s.Affinity, Tolerations: s.Tolerations, Spread: s.Spread,
		HostPorts: convert.Each(s.HostPorts, func(p hostPort) rollout.HostPort { return rollout.HostPort(p) }),
		Requests:  noneIfEmpty(s.Requests), Claims: s.Claims, Priority: s.Priority, Preempts: s.Preempts,
		GracePeriod: time.Duration(s.GracePeriod) * time.Second, Gated: s.Gated, Once: s.Once, Scheduler: s.Scheduler, PullSecrets: s.PullSecrets,
		Security: s.Security, Unset: s.Unset,
	}
}
