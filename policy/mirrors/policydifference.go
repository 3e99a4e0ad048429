package mirrors

import (
	"cmp"
	"slices"
	"strings"
)

// PolicyDifferences compares what mirror objects and what the files that nodes were given say
// of images that may run: policy.json, those of namespaces with an ImagePolicy, and
// registries.d. They are sorted by file and scope.
func PolicyDifferences(objects, machineConfig *Table) []Difference {
	was, is := objects.trust, machineConfig.trust
	all := ruleDifferences(PolicyJSONPath, &was.cluster, &is.cluster)
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(objects.OwnPolicies(), machineConfig.OwnPolicies())))) {
		all = append(all, ruleDifferences(namespacePolicyPath(namespace), was.in(namespace), is.in(namespace))...)
	}
	all = append(all, attachmentDifferences(&was.attachments, &is.attachments)...)
	slices.SortStableFunc(all, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Scope, b.Scope))
	})
	return all
}

// otherImages stands for those that no scope covers.
const otherImages = "all other images"

func ruleDifferences(file string, objects, machineConfig *scopeRules) []Difference {
	var all []Difference
	add := func(scope string, was, is *scopeRule) {
		if was != nil && is != nil && was.same(*is) {
			return
		}
		d := Difference{file, scope, was.inWords(), is.inWords()}
		if d.Objects == d.MachineConfig {
			d.MachineConfig = "other " + d.MachineConfig
		}
		all = append(all, d)
	}
	add(otherImages, &objects.rest, &machineConfig.rest)
	objects.each(&machineConfig.byScope, add)
	return all
}

func (r *scopeRule) inWords() string {
	switch {
	case r == nil:
		return ""
	case r.refused != "":
		return "refused"
	case r.trust != nil:
		return "signatures required"
	default:
		return "accepted"
	}
}

func attachmentDifferences(objects, machineConfig *attachments) []Difference {
	var all []Difference
	add := func(scope string, was, is *bool) {
		if was == nil || is == nil || *was != *is {
			all = append(all, Difference{AttachmentsPath, scope, lookedFor(was), lookedFor(is)})
		}
	}
	add(otherImages, &objects.rest, &machineConfig.rest)
	objects.each(&machineConfig.byScope, add)
	if objects.broken != machineConfig.broken {
		all = append(all, Difference{AttachmentsPath, "all images", objects.broken, machineConfig.broken})
	}
	return all
}

func lookedFor(on *bool) string {
	switch {
	case on == nil:
		return ""
	case *on:
		return "signatures are looked for"
	default:
		return "no signatures are looked for"
	}
}
