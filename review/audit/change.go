package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// A Step is a Change with its objects, to judge it again.
type Step struct {
	// Edit is what was asked for.
	Edit mirrors.Edit
	// Old is the object in force, New the one that was asked for; nil if there was none.
	Old, New mirrors.Object
}

// ReadChange returns the objects of a recorded change, or why it cannot be judged again.
func ReadChange(c *auditv1alpha1.Change) (Step, error) {
	if c == nil {
		return Step{}, errors.New("the record does not hold the change")
	}
	if c.Omitted != "" {
		return Step{}, fmt.Errorf("the record leaves it out: %s", c.Omitted)
	}
	var s Step
	var err error
	if s.Old, err = readObject(c.Old); err != nil {
		return Step{}, fmt.Errorf("the old object: %w", err)
	}
	if s.New, err = readObject(c.New); err != nil {
		return Step{}, fmt.Errorf("the new object: %w", err)
	}
	switch {
	case c.Step == auditv1alpha1.StepPut && s.New != nil:
		s.Edit = mirrors.Put(s.New)
	case c.Step == auditv1alpha1.StepDelete && s.Old != nil:
		s.Edit = mirrors.Delete(s.Old)
	case c.Step == auditv1alpha1.StepRemoveFinally && s.Old != nil:
		s.Edit = mirrors.RemoveFinally(s.Old)
	default:
		return Step{}, fmt.Errorf("the record has the step %q without its object", c.Step)
	}
	return s, s.Edit.Err()
}

func readObject(data json.RawMessage) (mirrors.Object, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	o, err := mirrors.Parse(data)
	if err == nil && o.GetName() == "" {
		err = errors.New("it has no name")
	}
	return o, err
}

// RecordedFacts returns the facts of d, as old as they were.
func RecordedFacts(d *auditv1alpha1.Decision) (policy.Facts, error) {
	facts := policy.Facts{}
	for _, f := range d.Facts {
		depth, err := numberOf(f.Depth, mirrors.DepthReferrers)
		if err != nil {
			return nil, fmt.Errorf("the fact about %s: depth: %w", f.Location, err)
		}
		presence, err := numberOf(f.Presence, policy.Inconclusive)
		if err != nil {
			return nil, fmt.Errorf("the fact about %s: presence: %w", f.Location, err)
		}
		fact := &policy.Fact{
			Presence: presence, Detail: f.Detail, Digest: f.Digest, MediaType: f.MediaType, Platforms: f.Platforms, Missing: f.Missing,
			Serves: f.Serves, Lacks: f.Lacks, Guessed: f.Guessed, Children: f.Children, Recalled: f.Recalled, AsNodes: f.AsNodes,
			Instances: each.Of(f.Instances, func(i auditv1alpha1.Instance) policy.Instance { return policy.Instance(i) }),
		}
		if f.Age != nil {
			fact.Time = d.Time.Add(-time.Duration(*f.Age * float64(time.Second)))
		}
		if depth == mirrors.DepthSignatures && presence == policy.Present {
			all := each.Of(f.Signatures, func(s auditv1alpha1.Signature) signing.Signature { return signing.Signature(s) })
			fact.Signatures = &signing.Signatures{Read: fact.Time, All: all}
		}
		facts[mirrors.Location{Ref: f.Location, Insecure: f.Insecure, Depth: depth, ProposedTrust: f.ProposedTrust}] = fact
	}
	return facts, nil
}

// numberOf returns the constant with a name, of those from 0 to last.
func numberOf[T interface {
	~int | ~uint8
	fmt.Stringer
}](name string, last T,
) (T, error) {
	for n := T(0); n <= last; n++ {
		if n.String() == name {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%q is not known", name)
}
