package policy

import (
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A cluster has images that nothing runs until something is wrong: must-gather, what oc debug starts on a
// node, the support tools. No pod names them, so that they are missed on that day. They are the rescue set.

// rescueStreams are the ImageStreams of namespace openshift from which oc takes such images: oc adm
// must-gather (must-gather), oc debug node and oc adm copy-to-node (tools), oc adm node-logs and scripts
// (cli), and what support asks for with network problems (network-tools).
var rescueStreams = []string{"must-gather", "tools", "cli", "network-tools"}

// MustGatherAnnotation is the annotation by which an operator's ClusterServiceVersion or ClusterOperator names its
// must-gather image, for oc adm must-gather --all-images.
const MustGatherAnnotation = "operators.openshift.io/must-gather-image"

// IsRescue reports whether img is one that perhaps nothing runs until a fault has to be found, or that of
// the guard itself, without which no mirror set can be mended.
//
// The name of an image counts only if something that no tenant writes names it: the rescue set may be pinned on all nodes.
func (i Image) IsRescue() bool {
	byName := isRescueName(i.Ref) && (len(i.Consumers) == 0 || slices.ContainsFunc(i.Consumers, Consumer.isOfCluster))
	return byName || slices.ContainsFunc(i.Consumers, Consumer.isRescue)
}

// isOfCluster reports whether c is one that no tenant writes: it is in no namespace or in one that is protected by default,
// or a ClusterServiceVersion, which OLM makes of catalogs that the cluster's administrators choose. A guess is none: an
// object in no namespace may be a report on what tenants run.
func (c Consumer) isOfCluster() bool {
	return !c.Guessed && (c.Namespace == "" || c.Kind == "ClusterServiceVersion" || Settings{}.namespaceRank(c.Namespace) < len(DefaultProtected))
}

func (c Consumer) isRescue() bool {
	switch {
	case c.Namespace == OwnNamespace:
		return c.Use != History
	case c.Kind == "ImageStream":
		past := !c.isTag() && !strings.Contains(c.Container, ".items[0].")
		return c.isRescueStream(rescueStreams) && !past
	case c.Kind == "ClusterServiceVersion", c.Kind == "ClusterOperator":
		return namesMustGather(c.Container)
	default:
		return false
	}
}

// An Unnamed is an image of the rescue set that commands start by a default of their own, though no object names it.
type Unnamed struct {
	// Ref is the image, Starts says which command starts it, as a clause, and command is its name.
	Ref, Starts, command string
	isLacking            func(Images) bool
}

// unnamed are what toolbox starts on a node unless a file there says otherwise, and oc debug node where ImageStream openshift/tools cannot be
// resolved (openshift/oc, pkg/cli/debug/debug.go, approximatePodTemplateForObject); and what oc adm must-gather starts where
// ImageStream openshift/must-gather cannot be (pkg/cli/admin/mustgather/mustgather.go, completeImages).
var unnamed = []Unnamed{
	{"registry.redhat.io/rhel9/support-tools:latest", "toolbox starts on a node, and oc debug where ImageStream openshift/tools is not imported", "toolbox", func(x Images) bool {
		isNamed := x.any(func(i Image) bool { return repositoryBase(i.Ref) == "support-tools" })
		return !isNamed && x.any(func(i Image) bool { return slices.ContainsFunc(i.Consumers, Consumer.isOfOpenShift) })
	}},
	{"registry.redhat.io/openshift4/ose-must-gather:latest", "oc adm must-gather starts, as ImageStream openshift/must-gather is not imported", "oc adm must-gather", func(x Images) bool {
		streams := func(only ...string) func(Image) bool {
			return func(i Image) bool {
				return slices.ContainsFunc(i.Consumers, func(c Consumer) bool { return c.isRescueStream(only) })
			}
		}
		return !x.any(streams("must-gather")) && x.any(streams(rescueStreams...))
	}},
}

// Unnamed returns those that x lacks: none where nothing shows that x are the images of a cluster of OpenShift.
func (x Images) Unnamed() []Unnamed {
	return slices.DeleteFunc(slices.Clone(unnamed), func(u Unnamed) bool { return !u.isLacking(x) })
}

// any reports whether is holds for an image.
func (x Images) any(is func(Image) bool) bool {
	for img := range x.All() {
		if is(img) {
			return true
		}
	}
	return false
}

// isOfOpenShift reports whether c is one that only clusters of OpenShift have.
func (c Consumer) isOfOpenShift() bool {
	return c.Kind == "ClusterVersion" || c.isRescueStream(rescueStreams)
}

func (c Consumer) isRescueStream(names []string) bool {
	return c.Kind == "ImageStream" && c.Namespace == "openshift" && slices.Contains(names, c.Name)
}

const commandKind = "command"

// withUnnamed returns the images of the cluster with the Unnamed that the change reroutes.
func (o Outline) withUnnamed() Images {
	x := o.known.Images
	for _, u := range unnamed {
		reroutes := slices.ContainsFunc(o.resolved, func(r resolution) bool {
			if r.after == nil {
				return false
			}
			_, _, changed, err := r.compare(u.Ref, "")
			return err == nil && changed
		})
		if !reroutes || !u.isLacking(x) {
			continue
		}
		x = x.with(Image{Ref: u.Ref, Consumers: []Consumer{{Kind: commandKind, Name: u.command, Use: History}}})
	}
	return x
}

// cutsOff reports whether the change takes away an image that no object names. A mirror that lacks one is not its fault: the
// source is asked next, as before. It must be proved that it was out of reach before, too.
func (a *assessment) cutsOff() bool {
	worse := a.after == Fails || a.after == Unsure && a.outcomeToday().Found() || a.After.SourceBlocked()
	return !a.failsToday().holds && (worse || a.After.Err != nil || a.After.Refused != "")
}

// isRescueName reports whether the repository of an image is called like those of support's tools.
func isRescueName(ref string) bool {
	base := repositoryBase(ref)
	return base == "support-tools" || namesMustGather(base)
}

// repositoryBase returns the last part of the name of a repository, "" for an invalid reference.
func repositoryBase(ref string) string {
	name, ok := mirrors.Repository(ref)
	if !ok {
		return ""
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}

func namesMustGather(name string) bool {
	return strings.Contains(strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name)), "mustgather")
}

// onlyRescue reports whether img is of the rescue set, and nothing else needs it.
func onlyRescue(img Image) bool { return onlyHistory(img) && img.IsRescue() }

// rescueMissing is RescueMissing: nodes would not get an image of the rescue set on its new route, or that
// is unknown. Nothing fails today. On the day it is needed there is no time to mirror it.
func rescueMissing(a *assessment) (Finding, bool) {
	reason := ""
	switch {
	case slices.ContainsFunc(a.Image.Consumers, func(c Consumer) bool { return c.Kind == commandKind }) && !a.cutsOff():
		return Finding{}, false
	case a.After.Err != nil, a.After.Refused != "", a.after == Fails:
		reason = "nodes could not pull it on the day it is needed"
	case a.after == Unsure:
		reason = "it could not be verified that nodes can pull it on the day it is needed"
	case a.onlySourceHolds() && a.mirrors == Fails:
		reason = "only the source has it, which may be away on the day it is needed"
	default:
		return Finding{}, false
	}
	f := Finding{Severity: Warn, Reason: reason, Detail: a.places()}
	for _, cause := range []func(*assessment) (Finding, bool){rewriteError, noRoute, signatureMissing, signatureRejected, signatureUnreadable, contentMismatch} {
		if found, ok := cause(a); ok { // with the remedy
			found.Severity, found.Reason = Warn, reason+": "+found.Reason
			return found, true
		}
	}
	if a.absentSomewhere() && a.newRoute.hasOpenMirror() {
		f.Copy = a.copyToMirror()
		return f, true
	}
	f.Remedy = a.verifyRemedy()
	return f, true
}
