package policyfile

import (
	"slices"
)

// A Difference describes one entry in which two policies differ, in words: "" where one has none. AttachmentsPath stands for
// all files of its folder.
type Difference struct{ File, Scope, Objects, MachineConfig string }

// Differences compares what mirror objects make with what nodes were given.
func Differences(objects, machineConfig *Policy) []Difference {
	all := ruleDifferences(PolicyJSONPath, &objects.cluster, &machineConfig.cluster)
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(objects.OwnNamespaces(), machineConfig.OwnNamespaces())))) {
		all = append(all, ruleDifferences(namespacePolicyPath(namespace), objects.In(namespace), machineConfig.In(namespace))...)
	}
	return append(all, attachmentDifferences(&objects.Attachments, &machineConfig.Attachments)...)
}

// otherImages stands for those that no scope covers.
const otherImages = "all other images"

func ruleDifferences(file string, objects, machineConfig *scopeRules) []Difference {
	var all []Difference
	add := func(scope string, was, is *Rule) {
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

func (r *Rule) inWords() string {
	switch {
	case r == nil:
		return ""
	case r.Refused != "":
		return "refused"
	case r.Trust != nil:
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
	if objects.Broken != machineConfig.Broken {
		all = append(all, Difference{AttachmentsPath, "all images", objects.Broken, machineConfig.Broken})
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
