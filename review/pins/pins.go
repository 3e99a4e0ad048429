// Package pins makes PinnedImageSets of the images that pools need, so that drains need no registry.
//
//	made := pins.Make("pinned", mirrors.PinnedSetGVK, pins.OfDrains(cluster, stop), cluster.Pools)
//	record, err := reviewer.Review(ctx, made.Edit(), by) // can the nodes pull them? If not: Refused, LeaveOut
//	err = made.Write(os.Stdout, record)
//
// What cannot be pinned is said, and nothing is left out silently. Which images a pool needs is for the caller:
// those of pods that drains move, or those of a release.
package pins

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/crd"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/simulation"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// A Want is an image that the nodes of a pool are to hold.
type Want struct {
	Pool, Image string
	// By says what needs it ("Pod shop/cart-1").
	By string
	// Asks is why nodes ask a registry even if they hold it, "" if they do not.
	Asks string
	// Vital is set if the other images are of no use without this one.
	Vital bool
	// Refused is why a review refuses to pin it, "" if none does.
	Refused string
}

// Refused returns why a review of Edit refuses images that it has nodes pin, by reference: others need not wait for these. The mode
// of the settings and what weakens a denial make no difference, as one image that is missing fails a whole set on every node.
func Refused(record review.Record) map[string]string {
	refused := map[string]string{}
	for _, f := range record.Verdict.Findings {
		if f.Image.Ref != "" && refused[f.Image.Ref] == "" && (f.Severity == policy.Deny || f.Rule == policy.PinnedImageMissing) {
			refused[f.Image.Ref] = f.Rule + ": " + f.Reason
		}
	}
	return refused
}

// LeaveOut returns wants with the reasons that Refused returned, and whether a vital one is refused.
func LeaveOut(wants []Want, refused map[string]string) (rest []Want, vital bool) {
	rest = slices.Clone(wants)
	for i := range rest {
		if why := refused[rest[i].Image]; why != "" {
			rest[i].Refused = why
			vital = vital || rest[i].Vital
		}
	}
	return rest, vital
}

// OfDrains returns what pods need that drains move.
func OfDrains(cluster rollout.Cluster, stop func() bool) []Want {
	var wants []Want
	for _, n := range simulation.Needs(simulation.Input{Cluster: cluster, Stop: stop}) {
		w := Want{Pool: n.Pool, Image: strings.TrimSpace(n.Image), By: "Pod " + n.Pod}
		switch {
		case n.Always:
			w.Asks = "imagePullPolicy Always has kubelets ask a registry each time"
		case n.OwnSecrets:
			w.Asks = "pods bring a pull secret of their own, for which kubelets from Kubernetes 1.35 on may ask the registry again"
		}
		wants = append(wants, w)
	}
	return wants
}

// UnreadOf says which parts of a cluster could not be read, for which OfDrains may lack images. Of controllers, only StatefulSets make pods
// with others: see rollout.Controller.Template.
func UnreadOf(cluster rollout.Cluster) []string {
	var unread []string
	for _, resource := range []string{"pods", rollout.ControllerResources["StatefulSet"]} {
		if slices.Contains(cluster.Unknown, resource) {
			unread = append(unread, rollout.QualifiedResource(resource)+" could not be read, and images of theirs may be missing")
		}
	}
	return unread
}

// OfRescue returns the rescue set: on which node it is wanted shows on the day something is wrong.
func OfRescue(images policy.Images, pools []*mcfgv1.MachineConfigPool) []Want {
	var wants []Want
	for img := range images.All() {
		if !img.IsRescue() {
			continue
		}
		for _, pool := range pools {
			wants = append(wants, Want{Pool: pool.Name, Image: strings.TrimSpace(img.Ref), By: "rescue set"})
		}
	}
	return wants
}

// Pins are PinnedImageSets, by pool.
type Pins struct {
	Sets []*mcfgv1.PinnedImageSet
	// Left lists the images that are not pinned, or of no use pinned, and why: a line each.
	Left []string
	// Unread lists what could not be read, so that images may be missing: a line each.
	Unread []string
	prefix string // of the names of sets
	gvk    schema.GroupVersionKind
	pool   map[string]string // of a set, by its name
}

// ManagedByLabel is set on all PinnedImageSets that are made here, to ManagedBy, so that they can be found again.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "mirrorset-guard"
)

// Make makes the sets that pools want, with names that begin with prefix, in the version of gvk. Pools are those of the cluster;
// the wants of one that takes no sets are Left.
func Make(prefix string, gvk schema.GroupVersionKind, wants []Want, pools []*mcfgv1.MachineConfigPool) Pins {
	made := Pins{prefix: prefix, gvk: gvk, pool: map[string]string{}}
	byPool, left := map[string][]string{}, map[string]bool{}
	leave := func(w Want, why string) {
		if line := fmt.Sprintf("%s (%s, pool %s): %s", w.Image, w.By, w.Pool, why); !left[w.Image+why] {
			left[w.Image+why] = true
			made.Left = append(made.Left, line)
		}
	}
	for _, w := range wants {
		if why := cmp.Or(w.Refused, unfit(w.Image)); why != "" {
			leave(w, why)
			continue
		}
		if w.Asks != "" {
			leave(w, w.Asks)
		}
		byPool[w.Pool] = append(byPool[w.Pool], w.Image)
	}
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		if !slices.ContainsFunc(pools, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == name }) {
			made.Left = append(made.Left, fmt.Sprintf("%s of pool %s: there is no such MachineConfigPool", text.Count(len(byPool[name]), "image"), name))
		}
	}
	for _, pool := range pools {
		images := slices.Compact(slices.Sorted(slices.Values(byPool[pool.Name])))
		if len(images) == 0 {
			continue
		}
		labels, ok := labelsFor(pool)
		if !ok {
			made.Left = append(made.Left, fmt.Sprintf("%s of pool %s: its machineConfigSelector selects no label that is known to be its own", text.Count(len(images), "image"), pool.Name))
			continue
		}
		made.add(pool.Name, labels, images)
	}
	return made
}

// add makes as few sets as hold images.
func (p *Pins) add(pool string, labels map[string]string, images []string) {
	for n := 1; len(images) > 0; n++ {
		set := &mcfgv1.PinnedImageSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: p.gvk.GroupVersion().String(), Kind: p.gvk.Kind},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", p.prefix, pool, n), Labels: labels},
		}
		of := min(len(images), rollout.MaxPinnedImages)
		for _, image := range images[:of] {
			set.Spec.PinnedImages = append(set.Spec.PinnedImages, mcfgv1.PinnedImageRef{Name: mcfgv1.ImageDigestFormat(image)})
		}
		images = images[of:]
		p.Sets = append(p.Sets, set)
		p.pool[set.Name] = pool
	}
}

// unfit returns why an image cannot be pinned as it is named, "" if it can: a node that holds it by another
// name would not find it.
func unfit(image string) string {
	repository, version, ok := mirrors.Canonical(image)
	switch {
	case !ok:
		return "no node can parse the name"
	case !mirrors.ByDigest(image):
		return "it is named by tag, and only digests can be pinned; name it by digest where it is used"
	case image != repository+version:
		return "nodes hold it under another name than " + image
	}
	set := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x"},"spec":{"pinnedImages":[{"name":%q}]}}`, mirrors.PinnedSetGVK.GroupVersion(), mirrors.PinnedSetGVK.Kind, image)
	if errs := crd.Validate(mirrors.PinnedSetGVK, []byte(set), nil); len(errs) > 0 {
		return "the API does not take the name: " + errs[0].Detail
	}
	return ""
}

// labelsFor returns labels by which a pool takes a set.
func labelsFor(pool *mcfgv1.MachineConfigPool) (map[string]string, bool) {
	tries := []map[string]string{{mcfgv1.MachineConfigRoleLabelKey: pool.Name}}
	if s := pool.Spec.MachineConfigSelector; s != nil {
		tries = append(tries, s.MatchLabels)
	}
	for _, labels := range tries {
		set := &metav1.ObjectMeta{Labels: map[string]string{ManagedByLabel: ManagedBy}}
		for key, value := range labels {
			set.Labels[key] = value
		}
		if rollout.TakesPinnedSet(pool, set) {
			return set.Labels, true
		}
	}
	return nil, false
}

// Edit returns the change that applies all sets.
func (p Pins) Edit() mirrors.Edit {
	edits := make([]mirrors.Edit, len(p.Sets))
	for i, set := range p.Sets {
		edits[i] = mirrors.Put(set)
	}
	return mirrors.Join(edits...)
}

// Write writes the sets as YAML, with what a review of Edit found of their size in comments.
func (p Pins) Write(w io.Writer, record review.Record) error {
	sizes := sizesIn(record)
	for _, line := range slices.Concat(p.Unread, p.Left) {
		if _, err := io.WriteString(w, text.Comment("Incomplete: %s", line)); err != nil {
			return err
		}
	}
	for _, set := range p.Sets {
		data, err := encode(set)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s%s", text.Comment("Pool %s: %s", p.pool[set.Name], takes(set, sizes)), data); err != nil {
			return err
		}
	}
	return nil
}

// encode writes a set without the fields that an API server fills in.
func encode(set *mcfgv1.PinnedImageSet) ([]byte, error) {
	data, err := json.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]any            `json:"metadata"`
		Spec            mcfgv1.PinnedImageSetSpec `json:"spec"`
	}{set.TypeMeta, map[string]any{"name": set.Name, "labels": set.Labels}, set.Spec})
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(data)
}

// sizesIn returns the sizes of images that the review has read, by reference.
func sizesIn(record review.Record) map[string]int64 {
	sizes := map[string]int64{}
	for i := range record.Plan.Reroutes {
		r := &record.Plan.Reroutes[i]
		for _, l := range r.After.Open() {
			if f := record.Facts.At(l); f.Presence == policy.Present && f.Size > 0 {
				sizes[r.Image.Ref] = f.Size
				break
			}
		}
	}
	return sizes
}

// takes says how much a set takes on each node: layers that images share are fetched once, and counted more than
// once. MCO's daemon asks for twice the size, and for a minimum of free space (checkImagePayloadStorage and
// MinFreeStorageAfterPrefetch).
func takes(set *mcfgv1.PinnedImageSet, sizes map[string]int64) string {
	var sum int64
	unknown := 0
	for _, image := range set.Spec.PinnedImages {
		size, known := sizes[string(image.Name)]
		sum += size
		if !known {
			unknown++
		}
	}
	images := text.Count(len(set.Spec.PinnedImages), "image")
	switch {
	case sum == 0:
		return images + "; how much they take is not known"
	case unknown > 0:
		return fmt.Sprintf("%s; without the %s of unknown size, %s compressed, and less where they share layers", images, text.Number(unknown), text.Size(sum))
	default:
		return fmt.Sprintf("%s; %s compressed, and less where they share layers. Nodes that hold none of them need %s and 16 GiB free", images, text.Size(sum), text.Size(2*sum))
	}
}
