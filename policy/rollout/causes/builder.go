package causes

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// diagnosis builds a Diagnosis.
type diagnosis struct {
	Diagnosis
	status.Input
	*status.Lookup
	set        mirrors.Set
	resolution mirrors.Resolution
	rejected   error // why MCO rejects set
	pools      []status.Pool
	budgets    budgets
	makers     rollout.Makers
	refusals   map[string]int             // the hold-ups about budgets
	began      time.Time                  // when the drain began that is looked at, the zero Time if that is not known
	allowed    map[podKind][]*corev1.Node // eligible
	holders    map[string][]*rollout.Pod  // findHolders, by "namespace/claim"; nil until it is asked for
}

// podKind is what decides on which nodes a pod may run.
type podKind struct {
	namespace string
	spec      *rollout.PodSpec
}

func (d *diagnosis) add(h HoldUp) {
	lines := status.Printable(h.Chain.Lines())
	h.Chain = chain(lines[0], lines[1:]...)
	h.Cause = cmp.Or(h.Cause, Unknown)
	h.Unexplained = h.Unexplained || h.Cause == Unknown
	d.HoldUps = append(d.HoldUps, h)
}

// longAgo reports whether a time of the cluster is more than a duration ago. It is false where
// one of the two is not known.
func (d *diagnosis) longAgo(t *time.Time, than time.Duration) bool {
	return t != nil && !t.IsZero() && !d.Now.IsZero() && d.Now.Sub(*t) > than
}

// explanation is the reason why a pod is not ready or an image is not pulled, with remedies.
type explanation struct {
	cause    Cause
	subject  string
	links    []string // of a Chain
	remedies []Remedy
	// last are remedies that do more than is asked for.
	last []Remedy
}

func (w *explanation) because(links ...string) { w.links = append(w.links, links...) }

// explain adds the links of an explanation, and all of its remedies.
func (h *HoldUp) explain(w explanation) {
	h.because(w.links...)
	h.Remedies = slices.Concat(h.Remedies, w.remedies, w.last)
}
