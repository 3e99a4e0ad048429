// Package plan decides which images a question is about (a change, the configuration in force, a deletion, a
// release), which routes they take before and after, and which places have to be looked up for that, in which
// order and how deeply. It judges nothing. Of the rooms it imports policy, settings and evidence.
package plan

import (
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
)

// A Cluster holds the knowledge about a cluster besides its mirror configuration.
type Cluster struct {
	// Images are those that something in the cluster depends on.
	Images policy.Images
	// InForce are the tables of policy.Change.Before, which is then the configuration in force; nil
	// if they have yet to be computed.
	InForce *mirrors.Tables
	// Gaps are the unknown parts of the cluster.
	Gaps []policy.Gap
	// Unsearched are the kinds without rules of their own that could not be searched for images. Only what deletes is held to
	// them: the guard's rights leave some out in every cluster.
	Unsearched []policy.Gap
	// Nodes are those of the cluster, with their labels, taints and platforms; none if they are
	// not known.
	Nodes []*corev1.Node
	// PodsListed reports whether Images are those of all pods of a namespace too, beside Gaps. Nil: of none.
	PodsListed func(namespace string) bool
	// EndingNamespaces are those that are being deleted, and that nothing is known to recreate.
	EndingNamespaces map[string]bool
	// OtherCredentials reports whether nodes may have other credentials for an image, and
	// for its mirrors, than the guard (those that CRI-O's credential provider finds in a
	// pod's namespace); nil: for none.
	OtherCredentials func(ref string) bool
	// Rollout is what a rollout goes through; nil if it is not known.
	Rollout *rollout.Cluster
	// RunsHere says by which object a host, without a port, leads to what runs on this cluster ("Route quay/registry"); "" for none
	// that is known. It may be nil.
	RunsHere func(host string) string
	// ExposedUnread are the resources whose objects could not be read.
	ExposedUnread []string
	// Current are the rendered configs that nodes have (rollout.Cluster.CurrentConfigs).
	Current []evidence.CurrentConfig

	// brought are the references of Images that the change brings: see Bringing.
	brought map[string]bool
	// pins are those of brought that the change has PinnedImageSets name.
	pins map[string]bool
}

func (c *Cluster) site() *evidence.NodeSite { return evidence.SiteOf(c.Nodes, c.Gaps, c.PodsListed) }

// A Plan holds the routes that images take, and the settings by which they are judged. Images of a release have
// no more (NewPulls); see ChangePlan, StandingPlan and DeletionPlan for the others.
type Plan struct {
	// Reroutes are sorted by the references of their images.
	Reroutes []evidence.Reroute
	// Malformed are images whose references no node can parse. Their pulls fail
	// whatever the mirrors.
	Malformed []policy.Image
	// Total is the number of images that were compared.
	Total int
	// Gaps are those of the Cluster, with what is not known of the routes.
	Gaps []policy.Gap
	// Rejected says why MCO does not, or would not, apply the configuration; nil if it does.
	Rejected *mirrors.Rejection

	Known  *Cluster
	Routes AllRoutes
	Site   *evidence.NodeSite
	read   policy.Readers
	// Settings are those that hold for the question.
	Settings settings.Settings
	order    []int // see ranking
}

// A ChangePlan is the Plan of a change.
type ChangePlan struct {
	Plan
	// Unseen is the effect of the change on images that may have come where there are Gaps.
	Unseen Unseen
	// Added are the entries of mirror objects that the change brings or alters.
	Added []mirrors.Entry
	// ListsChanged is set if the change alters the registry lists.
	ListsChanged bool
	// RejectedBefore says why MCO does not apply the configuration in force; nil if it does. Where Rejected has a
	// reason that RejectedBefore lacks, no route changes, and Reroutes is empty unless the settings admit
	// the change all the same. In that case, and where MCO is stuck and stays so for the same
	// reasons, Reroutes are what the change will do once the configuration is repaired.
	RejectedBefore *mirrors.Rejection
	// BeforeUnknown is set where MCO rejects the configuration in force, the change repairs
	// it, and what nodes have in the meantime is not known. Reroutes are then all images that
	// the new configuration covers or the change to the objects affects.
	BeforeUnknown bool
	// UnknownCAs says why it is not known which CAs nodes would trust after the change; empty
	// if it is known, or if the change does not alter them.
	UnknownCAs []string

	Change   policy.Change
	Unjudged bool // whether the new configuration has no routes
	Shrinks  bool // both configurations are too large to be judged, and the change only makes them smaller
}

func byRef(a, b evidence.Reroute) int { return strings.Compare(a.Image.Ref, b.Image.Ref) }

// OnlySignatures reports whether p is of a change of image policies after which nodes pull
// from where they do today.
func (p ChangePlan) OnlySignatures() bool {
	c := p.Change
	mirrorSets, others := c.ChangedMirrorSets()
	return len(mirrorSets) == 0 && others && !c.ChangesPins() && c.KeepsLists() && c.KeepsFiles() && c.Before.TrustedCA == c.After.TrustedCA && slices.Equal(c.Before.ImportFrom, c.After.ImportFrom) &&
		!slices.ContainsFunc(p.Reroutes, func(r evidence.Reroute) bool { return r.BeforeUnknown || !r.Before.SamePlaces(r.After) })
}

// RequiresNone reports whether nodes require a signature at no place of the routes after the change.
func (p ChangePlan) RequiresNone() bool {
	return !slices.ContainsFunc(p.Reroutes, func(r evidence.Reroute) bool {
		return slices.ContainsFunc(r.After.Sources, func(s mirrors.PullSource) bool { return s.Trust != nil })
	})
}

// Doubled returns s with room for n more, at least twice as much as before if there was none: append
// adds a quarter, and so allocates several times the final size in all.
func Doubled[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s
	}
	return slices.Grow(s, max(n, len(s)))
}

// ByImage groups the reroutes by image. An image has several where the nodes of some pools
// take another route.
func (p Plan) ByImage() iter.Seq[[]evidence.Reroute] {
	return func(yield func([]evidence.Reroute) bool) {
		for i, end := 0, 0; i < len(p.Reroutes); i = end {
			for end = i + 1; end < len(p.Reroutes) && p.Reroutes[end].Image.Ref == p.Reroutes[i].Image.Ref; {
				end++
			}
			if !yield(p.Reroutes[i:end]) {
				return
			}
		}
	}
}

// MaxNamed is how many names a line of a finding holds.
const MaxNamed = 8
