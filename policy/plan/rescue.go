package plan

import (
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// An Unnamed is an image of the rescue set that commands start by a default of their own, though no object names it.
type Unnamed struct {
	// Ref is the image, Starts says which command starts it, as a clause, and command is its name.
	Ref, Starts, command string
	isLacking            func(policy.Images) bool
}

// unnamed are what toolbox starts on a node unless a file there says otherwise, and oc debug node where ImageStream openshift/tools cannot be
// resolved (openshift/oc, pkg/cli/debug/debug.go, approximatePodTemplateForObject); and what oc adm must-gather starts where
// ImageStream openshift/must-gather cannot be (pkg/cli/admin/mustgather/mustgather.go, completeImages).
var unnamed = []Unnamed{
	{"registry.redhat.io/rhel9/support-tools:latest", "toolbox starts on a node, and oc debug where ImageStream openshift/tools is not imported", "toolbox", func(x policy.Images) bool {
		isNamed := anyImage(x, func(i policy.Image) bool { return policy.RepositoryBase(i.Ref) == "support-tools" })
		return !isNamed && anyImage(x, func(i policy.Image) bool { return slices.ContainsFunc(i.Consumers, policy.Consumer.IsOfOpenShift) })
	}},
	{"registry.redhat.io/openshift4/ose-must-gather:latest", "oc adm must-gather starts, as ImageStream openshift/must-gather is not imported", "oc adm must-gather", func(x policy.Images) bool {
		streams := func(only ...string) func(policy.Image) bool {
			return func(i policy.Image) bool {
				return slices.ContainsFunc(i.Consumers, func(c policy.Consumer) bool { return c.IsRescueStream(only) })
			}
		}
		return !anyImage(x, streams("must-gather")) && anyImage(x, streams(policy.RescueStreams...))
	}},
}

// UnnamedIn returns those that x lacks: none where nothing shows that x are the images of a cluster of OpenShift.
func UnnamedIn(x policy.Images) []Unnamed {
	return slices.DeleteFunc(slices.Clone(unnamed), func(u Unnamed) bool { return !u.isLacking(x) })
}

// anyImage reports whether is holds for an image.
func anyImage(x policy.Images, is func(policy.Image) bool) bool {
	for img := range x.All() {
		if is(img) {
			return true
		}
	}
	return false
}

// withUnnamed returns x with the Unnamed that a change reroutes, by its resolutions.
func withUnnamed(x policy.Images, resolved []resolution) policy.Images {
	for _, u := range unnamed {
		reroutes := slices.ContainsFunc(resolved, func(r resolution) bool {
			if r.After == nil {
				return false
			}
			_, _, changed, err := r.compare(u.Ref, "")
			return err == nil && changed
		})
		if !reroutes || !u.isLacking(x) {
			continue
		}
		x = x.With(policy.Image{Ref: u.Ref, Consumers: []policy.Consumer{{Kind: policy.CommandKind, Name: u.command, Use: policy.History}}})
	}
	return x
}
