package plan

import (
	"errors"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A resolution holds the routes before and after a change for the nodes of one variant
// (mirrors.Set.Variants).
type resolution struct {
	// rejected says why MCO would not apply the new configuration, rejectedBefore why it
	// does not apply the one in force; nil if it does.
	rejected, rejectedBefore *mirrors.Rejection
	// objects are the routes that follow from the objects in force, applied or not. Where
	// not even the generator can make sense of them, unreadable is set, and the routes are
	// those of a cluster without such objects.
	objects    *mirrors.Table
	unreadable bool
	// before are the routes that nodes take today, nil if they are not known. In that case
	// bare are the routes of a cluster without mirrors and registry lists.
	before, bare *mirrors.Table
	// After are the routes of the new configuration; nil if it is rejected for something
	// new (unless it is to be judged all the same), or if not even the generator can make
	// sense of it.
	After *mirrors.Table
}

// resolve resolves both sets of c, each once, using the tables of the configuration in force
// for the set before. A configuration that is rejected for something new has no routes, as
// nothing of it reaches a node, unless judgeRejected is set.
//
// Where MCO rejects the configuration in force and c repairs it, all of the new
// configuration is applied at once, including what changed while MCO was stuck. Before is
// then what nodes have (mirrors.Set.Applied).
func resolve(c policy.Change, inForce *mirrors.Tables, judgeRejected bool) resolution {
	pool := c.Before.Pool
	var r resolution
	var err error
	if r.objects, err = inForce.Resolve(pool); errors.As(err, &r.rejectedBefore) {
		r.objects, _ = inForce.ResolveUnchecked(pool)
	}
	if r.After, err = mirrors.Resolve(c.After); errors.As(err, &r.rejected) && (judgeRejected || len(r.rejected.Beyond(r.rejectedBefore)) == 0) {
		r.After, _ = mirrors.ResolveUnchecked(c.After)
	}
	if r.unreadable = r.objects == nil; r.unreadable {
		r.objects = unconfigured()
	}
	r.before = r.objects
	if r.rejectedBefore != nil && r.rejected == nil {
		r.before, _ = inForce.ResolveApplied(pool)
		r.unreadable = false
	}
	if r.before == nil {
		r.bare = unconfigured()
	}
	return r
}

// IsTooMuch reports whether r is of a configuration that is too large to be judged.
func IsTooMuch(r *mirrors.Rejection) bool { return r != nil && r.TooMuch }

// changedScopes says for which images compare may report a change.
func (r *resolution) changedScopes() mirrors.ChangedScopes {
	if r.before == nil {
		return mirrors.ChangedScopes{Everything: true}
	}
	return mirrors.CompareScopes(r.before, r.After)
}

// compare returns the routes of an image before and after for pods of a namespace, and whether
// they differ: see mirrors.Compare.
//
// Where it is not known what nodes do today, before is zero, and changed is set for images
// that after covers, and for those about which the objects said something else before. An
// image that neither mentions is pulled from its source; whether nodes still have a mirror
// for it that no object mentions any more cannot be known.
func (r *resolution) compare(image, namespace string) (before, after mirrors.Route, changed bool, err error) {
	if r.before != nil {
		before, after, changed, err = mirrors.Compare(r.before, r.After, image, namespace)
		return before, after, changed && !after.OnlyRelaxes(before), err
	}
	_, after, changed, err = mirrors.Compare(r.bare, r.After, image, namespace)
	if err == nil && !changed {
		_, after, changed, err = mirrors.Compare(r.objects, r.After, image, namespace)
	}
	return mirrors.Route{}, after, changed, err
}

// routes returns the routes of an image that takes the same one before and after. Before is
// zero where it is not known.
func (r *resolution) routes(image, namespace string) (before, after mirrors.Route, err error) {
	if after, err = r.After.Route(image, namespace); err != nil || r.before == nil {
		return mirrors.Route{}, after, err
	}
	if before, err = r.before.Route(image, namespace); err != nil {
		before = mirrors.Route{}
	}
	return before, after, nil
}

// maybe returns the routes that nodes may take to an image today, where that is not known.
func (r *resolution) maybe(image, namespace string) []mirrors.Route {
	if r.before != nil {
		return nil
	}
	var routes []mirrors.Route
	for _, table := range []*mirrors.Table{r.bare, r.objects} {
		if route, err := table.Route(image, namespace); err == nil {
			routes = append(routes, route)
		}
	}
	return routes
}

// ownPolicies returns the namespaces whose pods nodes hold, or will hold, to a signature policy of
// their own.
func (r *resolution) ownPolicies() []string {
	var namespaces []string
	for _, t := range []*mirrors.Table{r.before, r.objects, r.After} {
		if t != nil {
			namespaces = append(namespaces, t.OwnPolicies()...)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// byPolicy divides img by those namespaces of its consumers that have signature policies of their own:
// by the namespace, "" for all that are held to the cluster's. Those for any namespace are held to all.
func (r *resolution) byPolicy(img policy.Image, namespaces []string) map[string]policy.Image {
	parts := map[string]policy.Image{}
	add := func(namespace string, c policy.Consumer) {
		part := parts[namespace]
		part.Ref, part.Consumers = img.Ref, append(part.Consumers, c)
		parts[namespace] = part
	}
	for _, c := range img.Consumers {
		_, own := slices.BinarySearch(namespaces, c.Namespace)
		switch {
		case c.AnyNamespace:
			add("", c)
			for _, namespace := range namespaces {
				if r.DiffersIn(namespace, img.Ref) {
					add(namespace, c)
				}
			}
		case own && r.DiffersIn(c.Namespace, img.Ref):
			add(c.Namespace, c)
		default:
			add("", c)
		}
	}
	if len(parts) == 0 {
		parts[""] = img
	}
	return parts
}

func (r *resolution) DiffersIn(namespace, image string) bool {
	return slices.ContainsFunc([]*mirrors.Table{r.before, r.objects, r.After}, func(t *mirrors.Table) bool { return t != nil && t.DiffersIn(namespace, image) })
}

// unconfigured returns the routes of a cluster that has no mirrors and no registry lists.
func unconfigured() *mirrors.Table {
	table, _ := mirrors.ResolveUnchecked(mirrors.Set{}) // it always resolves
	return table
}

// A PoolRoutes holds the routes of the nodes of pools, before and after the change of a Plan.
type PoolRoutes struct {
	Pools []string
	resolution
	// Own are the namespaces with signature policies of their own.
	Own []string
}

// AllRoutes are those of all nodes: an element for each variant.
type AllRoutes []PoolRoutes

// OwnPolicies returns the namespaces whose pods are held to a signature policy of their own, on nodes of any pool.
func (all AllRoutes) OwnPolicies() []string {
	var namespaces []string
	for _, r := range all {
		namespaces = append(namespaces, r.Own...)
	}
	return namespaces
}

// On returns the routes of the nodes of a pool; of nodes of no pool, those of any.
func (all AllRoutes) On(pool string) *PoolRoutes {
	for i := range all {
		if slices.Contains(all[i].Pools, pool) {
			return &all[i]
		}
	}
	return &all[0]
}
