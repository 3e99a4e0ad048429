package review

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/evidence"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// An Explainer computes the routes of images before and after a change.
type Explainer struct {
	Before, After mirrors.Resolution
	// Namespace is that of the pods for which routes are explained, "" for those of namespaces
	// without an ImagePolicy.
	Namespace string
	// Images are those that were added, in the order asked.
	Images []ImageRoutes
	// Facts are those about their places; nil if nothing was looked up.
	Facts policy.Facts

	gaps []policy.Gap // what may use images and could not be read
}

// ImageRoutes are the routes of one image.
type ImageRoutes struct {
	Image         string // as asked
	Before, After mirrors.Route
	// Consumers are what uses the image by any spelling; nil if that is not known (Explainer.Use).
	Consumers []policy.Consumer
	// Elsewhere are other namespaces whose pods may pull it under another signature policy,
	// before or after.
	Elsewhere []string
	// OnWindows is set if pods that only nodes with Windows may run use it: they do not follow the routes.
	OnWindows bool
}

// Notes say for which pods the routes are others.
func (i ImageRoutes) Notes() (notes []string) {
	if len(i.Elsewhere) > 0 {
		notes = append(notes, fmt.Sprintf("an ImagePolicy makes it differ for pods of %s; see --namespace", text.Names(i.Elsewhere, maxNamespaces)))
	}
	if i.OnWindows {
		notes = append(notes, "not for Windows nodes: the Windows Machine Config Operator gives them mirrors by rules of its own, for whole registries")
	}
	return notes
}

// maxNamespaces is how many namespaces a note names.
const maxNamespaces = 4

// NewExplainer resolves both configurations. The error says which of them no node would
// get, or is too large to be judged.
func NewExplainer(before, after mirrors.Set) (*Explainer, error) {
	var (
		e   Explainer
		err error
	)
	if e.Before, err = resolve(before, "in force"); err != nil {
		return nil, err
	}
	if e.After, err = resolve(after, "after the change"); err != nil {
		return nil, err
	}
	return &e, nil
}

// resolve resolves set, which the error calls which.
func resolve(set mirrors.Set, which string) (mirrors.Resolution, error) {
	r, err := mirrors.NewResolution(set)
	if isTooMuch(err) {
		return r, fmt.Errorf("the configuration %s is too large to be judged: %w", which, err)
	}
	if err != nil {
		return r, fmt.Errorf("%s: the configuration %s is invalid, and no node would get it: %s", policy.RejectedByMCO, which, text.Line(err.Error()))
	}
	return r, nil
}

// isTooMuch tells a configuration that the guard cannot judge from one that the Machine
// Config Operator rejects.
func isTooMuch(err error) bool {
	var r *mirrors.Rejection
	return errors.As(err, &r) && r.TooMuch
}

// Add computes the routes of images. The errors are about those that no node could parse,
// which are left out.
func (e *Explainer) Add(images []string) []error {
	var malformed []error
	for _, image := range images {
		before, errBefore := e.Before.Route(image, e.Namespace)
		after, errAfter := e.After.Route(image, e.Namespace)
		if errBefore != nil || errAfter != nil {
			malformed = append(malformed, cmp.Or(errBefore, errAfter))
			continue
		}
		e.Images = append(e.Images, ImageRoutes{Image: image, Before: readable(before), After: readable(after), Elsewhere: e.elsewhere(image)})
	}
	return malformed
}

// Use enters the consumers of the images that were added, which are among those of images, and run on nodes. With gaps, there may be others.
func (e *Explainer) Use(images policy.Images, gaps []policy.Gap, nodes []*corev1.Node) {
	e.gaps = gaps
	wanted := map[string][]int{}
	for i := range e.Images {
		if len(gaps) == 0 {
			e.Images[i].Consumers = []policy.Consumer{}
		}
		name := e.spelled(e.Images[i].Image)
		wanted[name] = append(wanted[name], i)
	}
	for _, img := range images.ByReference() {
		for _, i := range wanted[e.spelled(img.Ref)] {
			e.Images[i].Consumers = append(e.Images[i].Consumers, img.Consumers...)
			e.Images[i].OnWindows = e.Images[i].OnWindows || evidence.SiteOf(nodes, nil, nil).RunOnWindows(img.Consumers)
		}
	}
}

// spelled returns the one spelling of a reference: "quay.io/shop/cart:latest" for "quay.io/shop/cart". A
// short name stays as it is.
func (e *Explainer) spelled(image string) string {
	if candidates, err := e.After.Candidates(image); err == nil && len(candidates) == 1 {
		return candidates[0]
	}
	return image
}

// readable returns route with the depth that shows for which parts nodes look for signatures, if they
// look for any: without it, those of an index may not be known.
func readable(route mirrors.Route) mirrors.Route {
	route.Sources = slices.Clone(route.Sources)
	for k := range route.Sources {
		if s := &route.Sources[k]; s.WantsSignatures() {
			s.Depth = max(s.Depth, mirrors.DepthManifest)
		}
	}
	return route
}

func (e *Explainer) elsewhere(image string) []string {
	var namespaces []string
	for _, r := range []mirrors.Resolution{e.Before, e.After} {
		for _, namespace := range r.OwnPolicies() {
			if namespace != e.Namespace && !slices.Contains(namespaces, namespace) && r.DiffersIn(namespace, image) {
				namespaces = append(namespaces, namespace)
			}
		}
	}
	return namespaces
}

// Lookups returns the places without an entry in e.Facts: those that nodes ask on any of the
// routes, each once, and then those where they look for signatures. The caller enters the
// results and calls it again, until it returns none.
func (e *Explainer) Lookups() []mirrors.Location {
	var locs []mirrors.Location
	add := func(l mirrors.Location) {
		if _, known := e.Facts[l]; !known && !slices.Contains(locs, l) {
			locs = append(locs, l)
		}
	}
	for _, img := range e.Images {
		for _, s := range slices.Concat(img.Before.Sources, img.After.Sources) {
			if !s.Tried() {
				continue
			}
			add(s.Location)
			for _, l := range evidence.SignatureLookups(s, e.Facts) {
				add(l)
			}
		}
	}
	return locs
}

// Document returns e as JSON.
func (e *Explainer) Document() v1alpha1.Explanation {
	doc := v1alpha1.Explanation{APIVersion: v1alpha1.APIVersion, Kind: "Explanation", Images: []v1alpha1.Explained{}}
	for _, img := range e.Images {
		explained := v1alpha1.Explained{Image: img.Image, Before: RouteDocument(img.Before, e.Facts), After: RouteDocument(img.After, e.Facts), Notes: img.Notes()}
		if img.Consumers != nil {
			explained.Consumers = ConsumerDocuments(policy.Image{Ref: img.Image, Consumers: img.Consumers})
		}
		doc.Images = append(doc.Images, explained)
	}
	return doc
}
