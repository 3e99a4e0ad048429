package progress

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// Objects returns the mirror objects of set that make entries of registries.conf which
// changes bring: those that a rollout comes from. An entry that goes away has none any more.
func Objects(set mirrors.Set, changes *rollout.Changes) []mirrors.Object {
	if changes == nil {
		return nil
	}
	changed := map[string]bool{}
	for _, r := range changes.Registries {
		changed[r.Scope] = true
	}
	var objects []mirrors.Object
	for _, e := range set.Entries() {
		if changed[strings.TrimRight(e.Source, "/")] && !slices.Contains(objects, e.Object) {
			objects = append(objects, e.Object)
		}
	}
	return objects
}
