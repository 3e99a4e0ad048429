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

// IsRescue reports whether img is one that nothing may run until it is needed to find out what is wrong, or
// that of the guard itself, without which no mirror set can be mended.
//
// The name of an image counts only if something that no tenant writes names it: what is of the rescue set may be pinned on all nodes.
func (i Image) IsRescue() bool {
	byName := isRescueName(i.Ref) && (len(i.Consumers) == 0 || slices.ContainsFunc(i.Consumers, Consumer.isOfCluster))
	return byName || slices.ContainsFunc(i.Consumers, Consumer.isRescue)
}

// isOfCluster reports whether c is one that no tenant writes: it is in no namespace or in one that is protected by default,
// or a ClusterServiceVersion, which OLM makes of catalogs that the cluster's administrators choose. A guess is none: what is
// in no namespace may be a report on what tenants run.
func (c Consumer) isOfCluster() bool {
	return !c.Guessed && (c.Namespace == "" || c.Kind == "ClusterServiceVersion" || Settings{}.namespaceRank(c.Namespace) < len(DefaultProtected))
}

func (c Consumer) isRescue() bool {
	switch {
	case c.Namespace == OwnNamespace:
		return c.Use != History
	case c.Kind == "ImageStream":
		past := !c.isTag() && !strings.Contains(c.Container, ".items[0].")
		return c.Namespace == "openshift" && slices.Contains(rescueStreams, c.Name) && !past
	case c.Kind == "ClusterServiceVersion", c.Kind == "ClusterOperator":
		return namesMustGather(c.Container)
	default:
		return false
	}
}

// SupportTools is the image that toolbox starts on a node unless a file there says otherwise, and oc debug node where
// ImageStream openshift/tools cannot be resolved (openshift/oc, pkg/cli/debug/debug.go, approximatePodTemplateForObject).
const SupportTools = "registry.redhat.io/rhel9/support-tools:latest"

// LacksSupportTools reports whether a cluster, by its images one of OpenShift, has nothing that names SupportTools or a copy of it.
func LacksSupportTools(images []Image) bool {
	return slices.ContainsFunc(images, func(i Image) bool {
		return slices.ContainsFunc(i.Consumers, func(c Consumer) bool {
			return c.Kind == "ImageStream" && c.Namespace == "openshift" && slices.Contains(rescueStreams, c.Name)
		})
	}) && !slices.ContainsFunc(images, func(i Image) bool { return repositoryBase(i.Ref) == "support-tools" })
}

// isRescueName reports whether the repository of an image is called like those of support's tools.
func isRescueName(ref string) bool {
	base := repositoryBase(ref)
	return base == "support-tools" || namesMustGather(base)
}

// repositoryBase returns the last part of the name of a repository, "" for what is no reference.
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

// rescueMissing is RescueMissing: nodes would not get an image of the rescue set on its new route, or nobody
// knows. Nothing fails today. On the day it is needed there is no time to mirror it.
func rescueMissing(a *assessment) (Finding, bool) {
	reason := ""
	switch {
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
	if a.absentSomewhere() && a.newRoute.hasOpenMirror() {
		f.Copy = a.copyToMirror()
		return f, true
	}
	f.Remedy = a.verifyRemedy()
	return f, true
}
