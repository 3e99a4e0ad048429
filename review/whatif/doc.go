// Package whatif judges mirrors as they will be, once something has been done to them that has not
// been done yet: a mirroring (Mapping) or a deletion (DeleteList).
//
// A person on a command line vouches for such a plan. The webhook and the standing verification do not
// import this package, which a test holds, and so cannot rest on it.
//
//	m, err := whatif.ReadMapping("mapping.txt", file)
//	reviewer.Registries = m.Of(reviewer.Registries)
//
//	list, err := whatif.ReadDeleteList("delete-images.yaml", file)
//	deletion, err := whatif.Judge(ctx, reviewer, list, review.Coming{})
package whatif
