package workloads

import (
	"crypto/sha256"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/intern"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A Table holds the pods of a cluster that have not ended. The zero value is empty and
// ready. It is safe for concurrent use.
type Table struct {
	specs     intern.Pool[[sha256.Size]byte, sharedSpec]
	templates intern.Pool[[sha256.Size]byte, rollout.PodSpec]

	mu   sync.Mutex
	pods []rollout.Pod
	rows map[types.NamespacedName]int // indexes in pods
	// lent says that a caller of Pods has pods: it must be copied before it is changed.
	lent bool
	// names are the strings that many pods have: those of namespaces, nodes, owners. Those
	// of pods that are gone are dropped when there have been more removals than there are
	// pods.
	names   map[string]string
	removed int
}

// Trim returns the kept part of a pod, nil for one that has ended and is not being deleted. The pod is
// not changed, and parts of it may be kept.
func (t *Table) Trim(pod *corev1.Pod) *rollout.Pod {
	// It takes no room. One that is being deleted holds a drain up for as long as it is there.
	if pod.DeletionTimestamp == nil && isOver(pod) {
		return nil
	}
	p := podOf(pod)
	p.Spec = t.share(specOf(pod))
	return t.named(p)
}

// named returns p with its names shared.
func (t *Table) named(p rollout.Pod) *rollout.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range namesIn(&p) {
		*name = t.name(*name)
	}
	return &p
}

// A sharedSpec is a spec that pods share.
type sharedSpec struct {
	rollout.PodSpec
	// template is what it has from a pool of its own. It must be in use as long.
	template *rollout.PodSpec
}

// share returns the one of all specs that are equal to s. Those that differ in labels and
// claims only, as the pods of a StatefulSet do, share the rest.
func (t *Table) share(s rollout.PodSpec) *rollout.PodSpec {
	sum, err := sumOf(&s)
	if err != nil {
		return &s
	}
	shared := t.specs.Get(sum, func() *sharedSpec {
		template := t.template(s)
		own := &sharedSpec{*template, template}
		own.Labels, own.Claims = s.Labels, s.Claims
		return own
	})
	return &shared.PodSpec
}

// template returns the one of all specs that are equal to s but for labels and claims, which
// it lacks.
func (t *Table) template(s rollout.PodSpec) *rollout.PodSpec {
	s.Labels, s.Claims = nil, nil
	sum, err := sumOf(&s)
	if err != nil {
		return &s
	}
	return t.templates.Get(sum, func() *rollout.PodSpec { return &s })
}

// sumOf is the same for equal specs.
func sumOf(s *rollout.PodSpec) ([sha256.Size]byte, error) {
	data, err := json.Marshal(encodeSpec(s))
	return sha256.Sum256(data), err
}

// namesIn are the strings of p that other pods have too.
func namesIn(p *rollout.Pod) []*string {
	return []*string{&p.Namespace, &p.Node, &p.Owner.Kind, &p.Owner.Name, &p.Failing, &p.FailingContainer, &p.Finalizers}
}

// name returns the one of all strings that are equal to s. t is locked.
func (t *Table) name(s string) string {
	if known, ok := t.names[s]; ok {
		return known
	}
	if t.names == nil {
		t.names = map[string]string{}
	}
	t.names[s] = s
	return s
}

// Put enters a pod, instead of the one of its name. It has come from Trim and is not nil.
func (t *Table) Put(p *rollout.Pod) {
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	t.mu.Lock()
	defer t.mu.Unlock()
	row, known := t.rows[key]
	if known && t.pods[row] == *p {
		return // most changes of pods are of no account
	}
	t.own()
	if known {
		t.pods[row] = *p
		return
	}
	if t.rows == nil {
		t.rows = map[types.NamespacedName]int{}
	}
	t.rows[key] = len(t.pods)
	t.pods = append(t.pods, *p)
}

// own makes sure that t.pods may be changed. t is locked.
func (t *Table) own() {
	if !t.lent {
		return
	}
	t.pods = append(make([]rollout.Pod, 0, len(t.pods)+len(t.pods)/32+8), t.pods...)
	t.lent = false
}

// Remove removes the pod of that name, if there is one.
func (t *Table) Remove(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	t.mu.Lock()
	defer t.mu.Unlock()
	row, known := t.rows[key]
	if !known {
		return
	}
	t.own()
	delete(t.rows, key)
	last := len(t.pods) - 1
	if row != last {
		moved := t.pods[last]
		t.pods[row] = moved
		t.rows[types.NamespacedName{Namespace: moved.Namespace, Name: moved.Name}] = row
	}
	t.pods[last] = rollout.Pod{}
	t.pods = t.pods[:last]
	if t.removed++; t.removed > len(t.pods) {
		t.sweep()
	}
}

// Replace enters all pods of a cluster, which have come from Trim, instead of those that
// were there. Nil ones count for nothing, and of those of one name the last counts.
func (t *Table) Replace(all iter.Seq[*rollout.Pod]) {
	var pods []rollout.Pod
	rows := map[types.NamespacedName]int{}
	for p := range all {
		if p == nil {
			continue
		}
		key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		if row, known := rows[key]; known {
			pods[row] = *p
			continue
		}
		rows[key] = len(pods)
		pods = append(pods, *p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pods, t.rows, t.lent = slices.Clip(pods), rows, false
	t.sweep()
}

// sweep drops the names that no pod has any more. t is locked.
func (t *Table) sweep() {
	t.names, t.removed = map[string]string{}, 0
	for i := range t.pods {
		for _, name := range namesIn(&t.pods[i]) {
			t.names[*name] = *name
		}
	}
}

// Pods returns the pods in no order. They are shared and must not be changed. It costs
// nothing; the first change after it copies the list.
func (t *Table) Pods() []rollout.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lent = true
	return slices.Clip(t.pods)
}
