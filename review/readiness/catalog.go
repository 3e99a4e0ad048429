package readiness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/catalog"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Catalog is one of operators, with what the cluster has installed from it.
type Catalog struct {
	// Ref is the reference that was given, and ReadAt the place that it was read from, "" if it was not.
	Ref, ReadAt string
	Packages    []Package
}

// A Package is an operator that is installed, or will be, with what the update installs of it.
type Package struct {
	Name string
	// By is the object that has it installed ("Subscription quay/quay-operator"), or whose update will.
	By string
	// Channels are those that it is updated along, none for all.
	Channels []string
	// Installed is the bundle that is installed, "" if none is known, and Bundles are those that follow, the last of
	// which is the head of the channel.
	Installed string
	Bundles   []string
	// Stops is set if no update leads from there to the head.
	Stops bool
}

// maxCatalogs bounds the catalogs that are read for one answer, and maxOperatorImages the images that are judged for
// them.
const (
	maxCatalogs       = 20
	maxOperatorImages = 10_000
)

// An installation is a package that is installed.
type installation struct {
	Package
	kind, namespace, name string
	// catalog is the image of the catalog that it is from, "" if that is not known.
	catalog string
	follow  func(context.Context, *catalog.Package) (catalog.Update, error)
}

// catalogs reads the catalogs, and enters the images that updates of the installed packages need.
func (j *judging) catalogs(ctx context.Context, refs []string) error {
	operators, err := j.Cluster.Operators(ctx)
	if err != nil {
		return fmt.Errorf("reading which operators are installed: %w", err)
	}
	used, err := j.Cluster.Images(ctx)
	if err != nil {
		return fmt.Errorf("listing the images in use: %w", err)
	}
	if operators.Unread != "" {
		j.Problems = append(j.Problems, Problem{AboutCatalogs, Unknown, "which operators are installed is not known", []string{operators.Unread}})
	}
	installed := j.bounded(installations(operators, images.Catalogs(used)))
	left := map[string]bool{} // packages that no catalog was found to have
	for _, i := range installed {
		left[i.By] = true
	}
	read := j.readCatalogs(ctx, refs, installed)
	for i := range read {
		j.catalog(ctx, &read[i], left)
	}
	for _, i := range installed {
		if left[i.By] {
			j.elsewhere(i, refs)
		}
	}
	j.dependencies(ctx, read, installed)
	return nil
}

// catalogRefs returns each catalog once.
func catalogRefs(given []string) ([]string, error) {
	var refs []string
	for _, ref := range given {
		if _, _, ok := mirrors.Canonical(ref); !ok || !strings.Contains(ref, "/") {
			return nil, fmt.Errorf("--catalog %q: it is no reference of an image", text.Cut(ref, maxShown))
		}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	if len(refs) > maxCatalogs {
		return nil, fmt.Errorf("--catalog: %d catalogs, want no more than %d", len(refs), maxCatalogs)
	}
	return refs, nil
}

// The kinds of objects by which operators are installed: by OLM, and by OLM v1.
const (
	subscriptionKind = "Subscription"
	extensionKind    = "ClusterExtension"
)

// installations returns what is installed, sorted as operators are. Catalogs are images by CatalogSource.
func installations(o *objects.Operators, catalogs map[string]string) []installation {
	var all []installation
	for _, s := range o.Subscriptions {
		at := catalog.Installed{Name: s.Status.InstalledCSV, Version: versionIn(s.Status.InstalledCSV)}
		spec := s.Spec
		var channels []string
		if spec.Channel != "" {
			channels = []string{spec.Channel}
		}
		all = append(all, installation{
			Package: Package{Name: spec.Package, By: subscriptionKind + " " + s.Namespace + "/" + s.Name, Channels: channels, Installed: at.Name},
			kind:    subscriptionKind, namespace: s.Namespace, name: s.Name, catalog: catalogs[s.Spec.SourceNamespace+"/"+s.Spec.Source],
			follow: func(ctx context.Context, p *catalog.Package) (catalog.Update, error) { return p.Follow(ctx, spec, at) },
		})
	}
	for _, e := range o.Extensions {
		at := catalog.Installed(e.Installed())
		wants := e.Spec.Source.Catalog
		all = append(all, installation{
			Package: Package{Name: wants.Package, By: extensionKind + " " + e.Name, Channels: wants.Channels, Installed: at.Name},
			kind:    extensionKind, namespace: e.Spec.Namespace, name: e.Name,
			follow: func(ctx context.Context, p *catalog.Package) (catalog.Update, error) {
				return p.FollowVersions(ctx, wants, at)
			},
		})
	}
	return slices.DeleteFunc(all, func(i installation) bool { return i.Name == "" })
}

// versionIn returns the version in the name of a ClusterServiceVersion (PACKAGE.v1.2.3), "" if there is none. The
// catalog knows better, if it still has the bundle.
func versionIn(csv string) string {
	_, version, _ := strings.Cut(csv, ".v")
	return version
}

// isFrom reports whether a package may be updated from a catalog: from each if it is not known where it comes from, and
// else from one of the same name, as mirrors and versions leave it.
func (i *installation) isFrom(ref string) bool {
	return i.catalog == "" || nameOf(i.catalog) == nameOf(ref)
}

// elsewhere says that a package was found in none of the catalogs.
func (j *judging) elsewhere(i installation, given []string) {
	line := fmt.Sprintf("the package %s (%s)", i.Name, i.By)
	switch {
	case i.catalog == "":
		j.Problems = append(j.Problems, Problem{AboutCatalogs, Unknown, line + " is in none of the catalogs given, and it is not known from which it comes", nil})
	case slices.ContainsFunc(given, i.isFrom):
		j.NotInCatalogs = append(j.NotInCatalogs, line+", which is in none of the catalogs given: OLM would not update it")
	default:
		j.NotInCatalogs = append(j.NotInCatalogs, line+", whose catalog was not given: it comes from "+i.catalog)
	}
}

// nameOf returns the last part of an image's repository ("redhat-operator-index").
func nameOf(ref string) string {
	repository, _, _ := mirrors.Canonical(ref)
	return repository[strings.LastIndexByte(repository, '/')+1:]
}

// A followed package is installed, and bundles are what its update installs. Installed is nil if the catalog does not have it.
type followed struct {
	installation
	installed *catalog.Bundle
	bundles   []*catalog.Bundle
}

// catalog enters one with its image and those of its packages.
func (j *judging) catalog(ctx context.Context, r *readCatalog, left map[string]bool) {
	r.at = len(j.Readiness.Catalogs)
	j.Readiness.Catalogs = append(j.Readiness.Catalogs, r.Catalog)
	j.add(r.image)
	if r.err != nil {
		j.Problems = append(j.Problems, Problem{AboutCatalogs, Unknown, unreadCatalog(r.Ref), []string{r.err.Error()}})
	}
	for _, i := range r.from {
		p := r.packages[i.Name]
		left[i.By] = left[i.By] && r.err == nil && p == nil
		if p != nil {
			j.installation(ctx, r, p, i)
		}
	}
}

// unknownImages says that it is not known what the update of a package needs.
func (j *judging) unknownImages(r *readCatalog, i installation, err error) {
	j.Problems = append(j.Problems, Problem{
		AboutCatalogs, Unknown, fmt.Sprintf("which images the update of the package %s needs is not known (%s)", text.Line(i.Name), i.By),
		[]string{r.Ref + ": " + text.Line(text.Cut(err.Error(), maxReason))},
	})
}

// installation enters what the update of an installed package needs.
func (j *judging) installation(ctx context.Context, r *readCatalog, p *catalog.Package, i installation) {
	if p.Fault != nil {
		j.unknownImages(r, i, p.Fault)
		return
	}
	var update catalog.Update
	err := panics.Recovered(func() (err error) {
		update, err = i.follow(ctx, p)
		return err
	})
	if err != nil {
		j.unknownImages(r, i, err)
		return
	}
	i.Stops = update.Stops
	r.followed = append(r.followed, followed{i, p.Bundles[i.Installed], update.Bundles})
	j.enter(r, i, update.Bundles)
}

// enter enters the bundles of a package.
func (j *judging) enter(r *readCatalog, i installation, bundles []*catalog.Bundle) {
	for _, b := range bundles {
		i.Bundles = append(i.Bundles, b.Name)
		if err := j.bundle(b, i); err != nil {
			j.unknownImages(r, i, err)
			return
		}
	}
	c := &j.Readiness.Catalogs[r.at]
	c.Packages = append(c.Packages, i.Package)
}

// bundle enters the images of a bundle.
func (j *judging) bundle(b *catalog.Bundle, i installation) error {
	by := policy.Consumer{Kind: i.kind, Namespace: i.namespace, Name: i.name, Container: text.Line(b.Name), Use: policy.NextRelease}
	for _, related := range append([]catalog.Related{{Name: "bundle", Image: b.Image}}, b.Related...) {
		if related.Image == "" {
			continue // an operator may leave open what it does not need
		}
		img := Image{Image: release.Image{Name: text.Line(text.Cut(related.Name, maxShown) + " of " + b.Name), Ref: related.Image, Level: release.NoLevel}}
		img.needs(text.Line(b.Name), by)
		if j.ofOperators >= maxOperatorImages && j.at(related.Image) < 0 {
			return fmt.Errorf("the operators need more than %s images", text.Number(maxOperatorImages))
		}
		j.add(img)
	}
	if !slices.ContainsFunc(b.Related, func(r catalog.Related) bool { return r.Image != "" && r.Image != b.Image }) {
		return fmt.Errorf("its bundle %s names none of its images", text.Line(b.Name))
	}
	return nil
}

// needs notes who needs an image.
func (i *Image) needs(operator string, by policy.Consumer) {
	if !slices.Contains(i.Operators, operator) {
		i.Operators = append(i.Operators, operator)
	}
	if !slices.Contains(i.operators, by) {
		i.operators = append(i.operators, by)
	}
}

// at returns where an image is among Images, -1 for nowhere.
func (j *judging) at(ref string) int {
	if i, ok := j.positions[ref]; ok {
		return i
	}
	return -1
}

// add adds an image that operators need, once.
func (j *judging) add(img Image) {
	if j.positions == nil {
		j.positions = map[string]int{}
		for k := range j.Images {
			j.positions[j.Images[k].Ref] = k
		}
	}
	known := j.at(img.Ref)
	if known < 0 {
		j.positions[img.Ref] = len(j.Images)
		j.Images = append(j.Images, img)
		j.ofOperators++
		return
	}
	for _, o := range img.Operators {
		j.Images[known].needs(o, img.operators[0])
	}
}
