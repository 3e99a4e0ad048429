package policy

import (
	"errors"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A resolution is what the configurations before and after a change come to on the nodes
// of one variant (mirrors.Set.Variants).
type resolution struct {
	// rejected says why MCO would not apply the new configuration, rejectedBefore why it
	// does not apply the one in force; nil if it does.
	rejected, rejectedBefore *mirrors.Rejection
	// objects are the routes by what the objects in force say, applied or not. Where not
	// even the generator knows what to make of them, unreadable is set, and the routes are
	// those of a cluster without any.
	objects    *mirrors.Table
	unreadable bool
	// before are the routes that nodes take today, nil if they are not known. Then bare are
	// those of a cluster without mirrors and registry lists.
	before, bare *mirrors.Table
	// after are the routes of the new configuration. They are nil if it is rejected for
	// something new, and is not to be judged all the same, and if not even the generator
	// knows what to make of it.
	after *mirrors.Table
}

// resolve resolves both sets of c, each once, that before with the tables of the
// configuration in force. What is rejected for something new has no
// routes, as nothing of it reaches a node, unless judgeRejected is set.
//
// Where MCO rejects the configuration in force and c repairs it, all of the new
// configuration is applied at once, with what came while MCO was stuck: before is then
// what nodes have (mirrors.Set.Applied).
func (c Change) resolve(inForce *mirrors.Tables, judgeRejected bool) resolution {
	pool := c.Before.Pool
	var r resolution
	var err error
	if r.objects, err = inForce.Resolve(pool); errors.As(err, &r.rejectedBefore) {
		r.objects, _ = inForce.ResolveUnchecked(pool)
	}
	if r.after, err = mirrors.Resolve(c.After); errors.As(err, &r.rejected) && (judgeRejected || !r.rejectedAnew()) {
		r.after, _ = mirrors.ResolveUnchecked(c.After)
	}
	if r.unreadable = r.objects == nil; r.unreadable {
		r.objects = unconfigured()
	}
	r.before = r.objects
	if r.repairs() {
		r.before, r.unreadable = nil, false
		if c.Before.Applied != nil {
			r.before, _ = inForce.ResolveApplied(pool)
		}
	}
	if r.before == nil {
		r.bare = unconfigured()
	}
	return r
}

// rejectedAnew reports whether the new configuration is rejected for something that is not
// wrong yet.
func (r *resolution) rejectedAnew() bool { return len(r.rejected.Beyond(r.rejectedBefore)) > 0 }

// repairs reports whether MCO rejects the configuration in force, and not the new one.
func (r *resolution) repairs() bool { return r.rejectedBefore != nil && r.rejected == nil }

// shrinksTooMuch reports whether both configurations are too large to be judged, and c,
// which r is the resolution of, only makes that less.
func (r *resolution) shrinksTooMuch(c Change) bool {
	return isTooMuch(r.rejected) && isTooMuch(r.rejectedBefore) && c.onlyShrinks()
}

func isTooMuch(r *mirrors.Rejection) bool { return r != nil && r.TooMuch }

// changedScopes says of which images compare has something to tell.
func (r *resolution) changedScopes() mirrors.ChangedScopes {
	if r.before == nil {
		return mirrors.ChangedScopes{Everything: true}
	}
	return mirrors.CompareScopes(r.before, r.after)
}

// compare returns the routes of an image before and after, and whether they differ: see
// mirrors.Compare.
//
// Where it is not known what nodes do today, before is zero, and changed is set for images
// for which after holds anything, and for those for which the objects said something else
// before. An image about which neither has anything to say is pulled from its source; that
// nodes have a mirror for it of which no object is left cannot be told.
func (r *resolution) compare(image string) (before, after mirrors.Route, changed bool, err error) {
	if r.before != nil {
		return mirrors.Compare(r.before, r.after, image)
	}
	_, after, changed, err = mirrors.Compare(r.bare, r.after, image)
	if err == nil && !changed {
		_, after, changed, err = mirrors.Compare(r.objects, r.after, image)
	}
	return mirrors.Route{}, after, changed, err
}

// routes returns the routes of an image that does not change its route. Before is zero
// where it is not known.
func (r *resolution) routes(image string) (before, after mirrors.Route, err error) {
	if after, err = r.after.Route(image); err != nil || r.before == nil {
		return mirrors.Route{}, after, err
	}
	if before, err = r.before.Route(image); err != nil {
		before = mirrors.Route{}
	}
	return before, after, nil
}
