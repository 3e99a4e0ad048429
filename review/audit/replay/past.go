package replay

import (
	"context"
	"maps"
	"slices"
	"sync"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/input"
)

// A past holds the states of the objects that records are about, at the time of the record that
// is being judged. Objects without records are as in the cluster.
type past struct {
	states map[string]state
}

// A state is that of an object; nil if there was none.
type state struct {
	edit func(mirrors.Object) mirrors.Edit
	of   mirrors.Object
}

func present(o mirrors.Object) state { return state{mirrors.Put, o} }
func absent(o mirrors.Object) state  { return state{mirrors.Delete, o} }

// newPast returns the past before the first of records: each object as the first record about it
// found it.
func newPast(records []Change) *past {
	p := &past{states: map[string]state{}}
	for i := range records {
		name := input.ObjectName(records[i].Object)
		if _, known := p.states[name]; known {
			continue
		}
		if step, err := audit.ReadChange(records[i].Change); err == nil {
			p.states[name] = before(step)
		}
	}
	return p
}

// before returns the state that step found.
func before(step audit.Step) state {
	if step.Old != nil {
		return present(step.Old)
	}
	return absent(step.New)
}

// advance applies a record: a change that was admitted was made. If it was not, because of
// another webhook or of finalizers, the next record about the object says so.
func (p *past) advance(r *Change) {
	step, err := audit.ReadChange(r.Change)
	if err != nil {
		return
	}
	s := before(step)
	if r.Admitted && !r.DryRun {
		if s = absent(step.Old); step.New != nil {
			s = present(step.New)
		}
	}
	p.states[input.ObjectName(r.Object)] = s
}

// at returns the edit that leads from the cluster to the state before step, whose own object
// counts as it says.
func (p *past) at(step audit.Step) mirrors.Edit {
	edits := each.Of(slices.Sorted(maps.Keys(p.states)), func(name string) mirrors.Edit { return p.states[name].edit(p.states[name].of) })
	own := before(step)
	return mirrors.Join(append(edits, own.edit(own.of))...)
}

// recordedFacts answer lookups as registries did when the record was written.
type recordedFacts struct {
	facts policy.Facts

	mu   sync.Mutex
	lack map[mirrors.Location]bool
}

func newRecordedFacts(d *auditv1alpha1.Decision) (*recordedFacts, error) {
	facts, err := audit.RecordedFacts(d)
	return &recordedFacts{facts: facts, lack: map[mirrors.Location]bool{}}, err
}

// presence is a review.RegistriesFunc.
func (r *recordedFacts) presence(_ context.Context, locations []mirrors.Location) policy.Facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := policy.Facts{}
	for _, l := range locations {
		if fact, ok := r.facts[l]; ok {
			known[l] = fact
			continue
		}
		r.lack[l] = true
	}
	return known
}

// missing returns how many places were asked for that the record does not know.
func (r *recordedFacts) missing() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lack)
}

// recordedTrust takes what registries said under other CAs from the record, too.
type recordedTrust struct {
	review.Trust
	recorded *recordedFacts
}

// Propose implements review.Trust.
func (t recordedTrust) Propose(map[string]string) (review.Registries, func()) {
	return review.RegistriesFunc(t.recorded.presence), func() {}
}
