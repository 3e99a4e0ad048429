// Package snapshot reads the inventory of a cluster from a dump of its objects, to answer
// questions without the cluster: in a pipeline, on a laptop, in a support case.
//
// A dump is whatever "oc get -o yaml" and its like write: YAML or JSON, one
// object or many, lists of any kind, in a file, in a folder or on standard
// input; a must-gather, unpacked or as it was sent; or what Write has written.
// Objects are taken by the same code as from a live cluster, so that the
// answers are the same.
//
// A dump is seldom perfect. An unreadable part is a Problem with its place, and the rest is read all
// the same; whether an answer may rest on it is for the caller to decide. A dump cannot tell what it
// leaves out: there are no credentials or presence facts in it, and images of objects that were not
// dumped are missing without a trace.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/workloads"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A Snapshot is a dump that has been read. It does not change any more, and is
// safe for concurrent use.
type Snapshot struct {
	index         images.Index
	set           mirrors.Set
	mirrors       map[string][]byte // the mirror objects as the dump has them, by mirrors.NameOf
	kept          objects.Store
	providers     byKey[*configv1.CRIOCredentialProviderConfig]
	updating      byKey[*corev1.ConfigMap] // what an update depends on
	featureSet    *configv1.FeatureGate    // nil if the dump does not have it
	bundles       byKey[*corev1.ConfigMap]
	pods          workloads.Table
	podOwners     map[controllerKey]rollout.Controller
	contents      map[string]renderedContent // of rendered configs, by name
	unknown       []string                   // what a rollout depends on and the dump lacks
	signaturesWhy string                     // why there may be more signatures of releases, if who wrote the dump says so
	override      bool                       // whether workloads.DrainOverride is there
	written       bool                       // whether Write has written it, or a part of it
	exposedUnread []string                   // the resources of objects.Exposed that the writer of the dump could not read
	pullSecret    []byte
	notApplied    error          // why set has no Applied, though the dump has its MachineConfig
	objects       int            // that were understood, whether they name images or not
	skipped       map[string]int // objects of other kinds, by kind
	problems      []Problem
	// unreadMirrors are those problems that hide mirror objects, gaps those that hide images; lostObjects may hide anything.
	unreadMirrors, lostObjects []Problem
	gaps, unsearched           []policy.Gap
	// noMachineConfig are the names of those that may lay files and that the dump lacks, sorted.
	noMachineConfig []string
}

// byKey holds objects by namespace and name, the last one of a name.
type byKey[T metav1.Object] map[string]T

func (m *byKey[T]) put(o T) {
	if *m == nil {
		*m = byKey[T]{}
	}
	(*m)[o.GetNamespace()+"/"+o.GetName()] = o
}

func (m byKey[T]) sorted() []T {
	all := make([]T, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[key])
	}
	return all
}

// A Problem is a part of a dump that could not be read.
type Problem struct {
	// File is the path as it was given or found, "-" for standard input.
	File string
	// Document counts from 1 within File; 0 if the file as a whole is meant.
	Document int
	// Item counts from 1 within a Document that is a list; 0 if the document as a whole is meant.
	Item int
	Err  error
}

// Error implements error. It is one line, whatever the dump says.
func (p Problem) Error() string { return text.Line(fmt.Sprintf("%s: %v", p.String(), p.Err)) }

// String returns the place alone.
func (p Problem) String() string {
	place := p.File
	if p.Document > 0 {
		place += fmt.Sprintf(": document %d", p.Document)
	}
	if p.Item > 0 {
		place += fmt.Sprintf(": item %d", p.Item)
	}
	return place
}

// Unwrap returns Err.
func (p Problem) Unwrap() error { return p.Err }

// Problems returns what could not be read, in the order it was met.
func (s *Snapshot) Problems() []Problem { return s.problems }

// Mirrors returns the mirror configuration in the dump. It fails if there is, or may be,
// a mirror object that could not be read.
func (s *Snapshot) Mirrors(context.Context) (mirrors.Set, error) {
	return s.set, unreadError(slices.Concat(s.lostObjects, s.unreadMirrors))
}

// MirrorObject returns the mirror object of the kind and name of o as the dump has it, in JSON; nil
// if it does not.
func (s *Snapshot) MirrorObject(_ context.Context, o mirrors.Object) ([]byte, error) {
	return s.mirrors[mirrors.NameOf(o)], nil
}

// Applied returns what nodes have: MachineConfig mirrors.GeneratedRegistries. The error is
// objects.ErrNotApplied if the dump does not have it.
func (s *Snapshot) Applied(context.Context) (*mirrors.Applied, error) {
	switch {
	case s.notApplied != nil:
		return nil, s.notApplied
	case s.set.Applied == nil:
		return nil, fmt.Errorf("the dump has %w", objects.ErrNotApplied)
	default:
		return s.set.Applied, nil
	}
}

// Images returns the images that objects in the dump name. A dump without a single one cannot be
// complete, which is an error, unless Write has written it, of a cluster without nodes.
func (s *Snapshot) Images(context.Context) (policy.Images, error) {
	images, nodes := s.index.Images(), len(s.Nodes())
	switch err := unreadError(s.lostObjects); {
	case err != nil:
		return policy.Images{}, err
	case images.Len() > 0, s.written && nodes == 0:
		return images, nil
	case nodes > 0:
		return policy.Images{}, fmt.Errorf("the dump has %s and no object that names an image: it cannot be complete", text.Count(nodes, "node"))
	default:
		return policy.Images{}, errors.New("the dump has no object that names an image: without consumers of images there is no answer; add pods and workloads (see the documentation of --from)")
	}
}

// Cluster returns what a review of a change has to know of the cluster. The error is that of Images.
func (s *Snapshot) Cluster(ctx context.Context) (plan.Cluster, error) {
	images, err := s.Images(ctx)
	if err != nil {
		return plan.Cluster{}, err
	}
	through := s.Rollout()
	return plan.Cluster{
		RunsHere: objects.RunsHere(s.Exposed), ExposedUnread: s.exposedUnread,
		Images: images, Gaps: s.gaps, Unsearched: s.unsearched, PodsListed: s.podsListed(images), Nodes: s.Nodes(), EndingNamespaces: s.EndingNamespaces(), Rollout: &through,
	}, nil
}

// Exposed implements Source.
func (s *Snapshot) Exposed() []objects.Exposed {
	return objects.Exposing(&s.kept)
}

// ExposedUnread implements Source.
func (s *Snapshot) ExposedUnread() []string { return s.exposedUnread }

// podsListed returns Cluster.PodsListed: a dump of Write says itself what it lacks; any other has to have a pod of
// the namespace, as it may be of a few.
func (s *Snapshot) podsListed(images policy.Images) func(string) bool {
	if s.written && !slices.Contains(s.unknown, workloads.Pods) {
		return plan.InEveryNamespace
	}
	of := map[string]bool{}
	for img := range images.All() {
		for i := range img.Consumers {
			if c := &img.Consumers[i]; c.Kind == "Pod" {
				of[c.Namespace] = true
			}
		}
	}
	return func(namespace string) bool { return of[namespace] }
}

// Nodes returns the nodes in the dump, as objects.TrimNode leaves them, sorted
// by name.
func (s *Snapshot) Nodes() []*corev1.Node { return objects.All[*corev1.Node](&s.kept) }

// CredentialProviders returns the CRIOCredentialProviderConfigs in the dump, sorted by
// name.
func (s *Snapshot) CredentialProviders() []*configv1.CRIOCredentialProviderConfig {
	return s.providers.sorted()
}

// Proxy returns proxy.config.openshift.io cluster, as objects.TrimProxy leaves it,
// nil if the dump does not have it.
func (s *Snapshot) Proxy() *configv1.Proxy { return objects.One[*configv1.Proxy](&s.kept) }

// UpdateConfig returns the ConfigMaps in the dump that an update depends on, and the FeatureGate. A dump seldom has all.
func (s *Snapshot) UpdateConfig(context.Context) (*objects.UpdateConfig, error) {
	u := &objects.UpdateConfig{SignaturesUnread: text.Line(s.signaturesWhy), FeatureGate: s.featureSet}
	for _, cm := range s.updating.sorted() {
		u.Add(cm)
	}
	if len(s.updating) == 0 {
		u.Unread = noUpdateConfig
		u.SignaturesUnread = cmp.Or(u.SignaturesUnread, noUpdateConfig)
	}
	return u, nil
}

const noUpdateConfig = "the dump has none of the ConfigMaps that an update depends on"

// PinnedSetGVK returns the kind PinnedImageSet in the version that a cluster of this release serves: it is v1 from 4.19 on.
func (s *Snapshot) PinnedSetGVK(context.Context) (schema.GroupVersionKind, error) {
	v := objects.One[*configv1.ClusterVersion](&s.kept)
	if v == nil {
		return mirrors.PinnedSetGVK, nil
	}
	if release, err := version.ParseSemantic(v.Status.Desired.Version); err == nil && release.LessThan(firstPinnedSets) {
		return mirrors.PinnedSetFormerGVK, nil
	}
	return mirrors.PinnedSetGVK, nil
}

var firstPinnedSets = version.MustParseSemantic("4.19.0-0")

// EndingNamespaces is as in plan.Cluster.
func (s *Snapshot) EndingNamespaces() map[string]bool {
	return objects.EndingNamespaces(objects.All[*corev1.Namespace](&s.kept))
}

// PullSecret returns the .dockerconfigjson of Secret openshift-config/pull-secret,
// nil if the dump does not have it or has it blanked out.
func (s *Snapshot) PullSecret() []byte { return s.pullSecret }

// Notes says what the dump lacks and what was left out of it.
func (s *Snapshot) Notes() []string {
	var notes []string
	if s.index.Objects() == 0 {
		notes = append(notes, "the dump has no object that names an image")
	}
	if s.notApplied != nil {
		notes = append(notes, "what nodes have is not known: "+s.notApplied.Error())
	}
	if note := s.lackingNote(); note != "" {
		notes = append(notes, note)
	}
	notes = slices.Concat(notes, convert.Each(s.unsearched, policy.Gap.String), s.lackingBundles())
	if n := s.skippedNote(); n != "" {
		notes = append(notes, n)
	}
	return append(notes, s.problemNotes()...)
}

// namedProblems is how many problems Notes names one by one.
const namedProblems = 3

func (s *Snapshot) problemNotes() []string {
	notes := convert.Each(s.problems[:min(len(s.problems), namedProblems)], func(p Problem) string { return "not read: " + p.Error() })
	if more := len(s.problems) - namedProblems; more > 0 {
		notes = append(notes, fmt.Sprintf("not read: %d more", more))
	}
	return notes
}

// namedKinds is how many skipped kinds Notes names.
const namedKinds = 5

func (s *Snapshot) skippedNote() string {
	kinds := slices.Sorted(maps.Keys(s.skipped))
	if len(kinds) == 0 {
		return ""
	}
	total := 0
	for _, n := range s.skipped {
		total += n
	}
	return fmt.Sprintf("skipped %s of %s no images: %s",
		text.Count(total, "object"), text.Plural(len(kinds), "kind that holds", "kinds that hold"), text.Names(kinds, namedKinds))
}
