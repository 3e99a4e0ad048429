package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// maxStepReviews is how many reviews StepNote makes at most; the order of six objects that can be
// applied in one order only takes no more.
const maxStepReviews = 150

// StepNote describes the result of applying the objects of a change, which is admitted as a whole, one
// after another, as kubectl does: "" if each is admitted in its turn. Otherwise it says
// which is refused, and which order works. The registries have answered already, so a review of a
// step takes little more than computing.
func (r *Reviewer) StepNote(ctx context.Context, edit mirrors.Edit, by settings.Requester) (string, error) {
	o := ordering{reviewer: r, by: by, steps: edit.Steps(), stuck: map[string]bool{}}
	if len(o.steps) < 2 {
		return "", nil
	}
	refused, err := o.firstRefused(ctx)
	if err != nil {
		return "", err
	}
	if refused == "" {
		return o.unmoved(ctx)
	}
	note := "an API server receives objects one after another, and in this order would refuse " + refused
	order, err := o.byWayOfAllow(ctx)
	if order == nil && err == nil {
		order, err = o.search(ctx, nil)
	}
	switch {
	case err != nil:
		return "", err
	case order != nil:
		return note + "; this order works: " + strings.Join(order, ", "), nil
	case o.left <= 0:
		return note + "; no order that works was found in " + fmt.Sprint(maxStepReviews) + " reviews", nil
	case o.onlyRejected:
		return note + "; no order works, as the objects contradict each other until all are in place. The Machine Config Operator applies nothing in between: apply the first one with the override that its refusal names, and the others after it", nil
	default:
		return note + "; no order works: bring what is missing to the mirrors first, or apply one of them with the override that its refusal names", nil
	}
}

// An ordering looks for an order in which steps are admitted one by one.
type ordering struct {
	reviewer *Reviewer
	by       settings.Requester
	steps    []mirrors.Edit
	left     int
	// stuck are sets of steps, by their numbers, after which no order works.
	stuck map[string]bool
	// onlyRejected is set if every refusal is for nothing but RejectedByMCO.
	onlyRejected bool
}

// unmoved says that neither the steps nor the whole of them make nodes do anything else, if that is proved; "" if not, and
// where nothing takes the place of anything.
func (o *ordering) unmoved(ctx context.Context) (string, error) {
	var deletes bool
	now, err := o.reviewer.Inventory.Mirrors(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the mirror objects in force: %w", err)
	}
	for _, step := range o.steps {
		next := step.Apply(now)
		if !(policy.Change{Before: now, After: next}).KeepsRoutes() {
			return "", nil
		}
		deletes = deletes || len(next.Objects) < len(now.Objects)
		now = next
	}
	if !deletes {
		return "", nil
	}
	return "nothing moves: after each step, too, registries.conf has nodes pull every image, in use or not, from the same places in the same order", nil
}

// byWayOfAllow returns the order in which objects with NeverContactSource take the place of others without it, so that none
// contradicts an object in force when it comes, and no image is without its mirrors in between; nil if there is none.
func (o *ordering) byWayOfAllow(ctx context.Context) ([]string, error) {
	var first, deletes, last []mirrors.Edit
	var names, lastNames []string
	for _, step := range o.steps {
		puts := step.Apply(mirrors.Set{})
		relaxed := puts.Entries()
		switch {
		case len(puts.Objects) == 0:
			deletes = append(deletes, step)
			continue
		case !slices.ContainsFunc(relaxed, isNever):
			first, names = append(first, step), append(names, text.Line(step.Subject()))
			continue
		}
		for i := range relaxed {
			relaxed[i].Policy = configv1.AllowContactingSource
		}
		first, names = append(first, mirrors.Put(withEntries(puts.Objects[0], relaxed))), append(names, text.Line(step.Subject())+" with AllowContactingSource")
		last, lastNames = append(last, step), append(lastNames, text.Line(step.Subject())+" as it is")
	}
	if len(last) == 0 || len(deletes) == 0 {
		return nil, nil
	}
	all := slices.Concat(first, deletes, last)
	for i := range all {
		if admitted, err := o.admits(ctx, all[:i], all[i]); err != nil || !admitted {
			return nil, err
		}
	}
	return slices.Concat(names, convert.Each(deletes, func(e mirrors.Edit) string { return text.Line(e.Subject()) }), lastNames), nil
}

func isNever(e mirrors.Entry) bool { return e.Policy == configv1.NeverContactSource }

// firstRefused returns the first step that is refused in the given order, "" for none.
func (o *ordering) firstRefused(ctx context.Context) (string, error) {
	o.left, o.onlyRejected = maxStepReviews, true
	for i := range o.steps {
		admitted, err := o.admits(ctx, o.steps[:i], o.steps[i])
		if err != nil {
			return "", err
		}
		if !admitted {
			return o.steps[i].Subject(), nil
		}
	}
	return "", nil
}

// search returns an order of the steps that are not in done in which each is admitted after those
// before it; nil if there is none.
func (o *ordering) search(ctx context.Context, done []int) ([]string, error) {
	if len(done) == len(o.steps) {
		names := make([]string, len(done))
		for i, k := range done {
			names[i] = text.Line(o.steps[k].Subject())
		}
		return names, nil
	}
	key := fmt.Sprint(slices.Sorted(slices.Values(done)))
	if o.stuck[key] {
		return nil, nil
	}
	var before []mirrors.Edit
	for _, k := range done {
		before = append(before, o.steps[k])
	}
	for k := range o.steps {
		if slices.Contains(done, k) {
			continue
		}
		if o.left <= 0 {
			return nil, nil
		}
		admitted, err := o.admits(ctx, before, o.steps[k])
		if err != nil {
			return nil, err
		}
		if admitted {
			if order, err := o.search(ctx, append(slices.Clone(done), k)); order != nil || err != nil {
				return order, err
			}
		}
	}
	o.stuck[key] = true
	return nil, nil
}

// admits reports whether a step is admitted after those before it.
func (o *ordering) admits(ctx context.Context, before []mirrors.Edit, step mirrors.Edit) (bool, error) {
	o.left--
	r := *o.reviewer
	r.Inventory, r.InForce = After(r.Inventory, mirrors.Join(before...)), nil
	record, err := r.Review(ctx, step, o.by)
	if err != nil {
		return false, fmt.Errorf("reviewing %s as a step: %w", step.Subject(), err)
	}
	for _, f := range record.Verdict.Findings {
		o.onlyRejected = o.onlyRejected && (f.Severity != policy.Deny || f.Rule == policy.RejectedByMCO)
	}
	return record.Verdict.Allowed, nil
}
