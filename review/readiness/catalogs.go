package readiness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/catalog"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

const (
	// maxInstalled bounds the packages that are looked up in catalogs. Clusters have some tens.
	maxInstalled = 1_000
	// maxCatalogsAtOnce bounds the catalogs that are read at once. Each keeps a processor busy, and as much memory as package catalog keeps.
	maxCatalogsAtOnce = 3
)

// bounded leaves out packages that are too many, and says so.
func (j *judging) bounded(installed []installation) []installation {
	if len(installed) <= maxInstalled {
		return installed
	}
	j.Problems = append(j.Problems, Problem{AboutCatalogs, Unknown, fmt.Sprintf("%s are installed, and only the first %s were looked at", text.Count(len(installed), "package"), text.Number(maxInstalled)), nil})
	return installed[:maxInstalled]
}

// ReadCatalogs remember, for one run of a command, what was read of each catalog last. They are safe for concurrent use.
type ReadCatalogs struct {
	mu   sync.Mutex
	held map[heldKey]heldCatalog
}

// A heldKey is a catalog and the packages that it was read for, one a line.
type heldKey struct{ ref, packages string }

// A heldCatalog has what a manifest, by its digest, says.
type heldCatalog struct {
	instance string
	content  *catalog.Catalog
}

// get returns what read reads, unless the same is remembered of ref. Errors are not: they are those of a registry, and of today.
func (c *ReadCatalogs) get(ref, instance string, packages []string, read func() (*catalog.Catalog, error)) (*catalog.Catalog, error) {
	if c == nil {
		return read()
	}
	key := heldKey{ref, strings.Join(packages, "\n")}
	c.mu.Lock()
	held := c.held[key]
	c.mu.Unlock()
	if held.instance == instance && held.content != nil {
		return held.content, nil
	}
	content, err := read()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[heldKey]heldCatalog{}
	}
	c.held[key] = heldCatalog{instance, content}
	return content, nil
}

// A readCatalog is a catalog with what it has of the packages that may be updated from it.
type readCatalog struct {
	Catalog
	image Image // of the catalog itself
	from  []installation
	// packages are those that it was read for, nil if it does not have one.
	packages map[string]*catalog.Package
	err      error // if it could not be read
	// at is where it is among Catalogs, and followed are the updates from it.
	at       int
	followed []followed
}

// readCatalogs reads catalogs, a few at once.
func (j *judging) readCatalogs(ctx context.Context, refs []string, installed []installation) []readCatalog {
	all := make([]readCatalog, len(refs))
	var group errgroup.Group
	group.SetLimit(maxCatalogsAtOnce)
	for k, ref := range refs {
		r := &all[k]
		r.packages = map[string]*catalog.Package{}
		r.Catalog, r.image = Catalog{Ref: ref}, Image{Image: release.Image{Name: "catalog " + nameOf(ref), Ref: ref, Level: release.NoLevel}}
		r.image.needs("the catalog itself", policy.Consumer{Kind: "CatalogSource", Namespace: marketplace, Name: nameOf(ref), Container: "image", Use: policy.NextRelease})
		r.from = slices.DeleteFunc(slices.Clone(installed), func(i installation) bool { return !i.isFrom(ref) })
		group.Go(func() error {
			r.err = j.readInto(ctx, r, each.Of(r.from, func(i installation) string { return i.Name }))
			return nil
		})
	}
	group.Wait() //nolint:errcheck // each has its own
	return all
}

// readInto adds what a catalog has of packages. A panic is an error about it, as catalogs are made by somebody else.
func (j *judging) readInto(ctx context.Context, r *readCatalog, packages []string) error {
	return panics.Recovered(func() error {
		content, err := j.content(ctx, r, packages)
		if err == nil {
			maps.Copy(r.packages, content.Packages)
		}
		return err
	})
}

// marketplace is the namespace of OpenShift's own CatalogSources.
const marketplace = "openshift-marketplace"

// content reads a catalog from where nodes would take its image. It changes nothing but r.
func (j *judging) content(ctx context.Context, r *readCatalog, packages []string) (*catalog.Catalog, error) {
	route := j.route(ctx, &r.image)
	at, fact, ok := route.served()
	if !ok {
		return nil, errors.New(route.whyNot())
	}
	instance, _, ok := instanceFor(fact, policy.PlatformsOf(j.pulls.Nodes()))
	if instances, known := fact.Runs(); !ok && known && len(instances) > 0 {
		instance, ok = instances[0].Digest, true // its files are the same for all platforms
	}
	if !ok {
		return nil, fmt.Errorf("%s: which manifest it has is not known", at.Ref)
	}
	content, err := j.ReadCatalogs.get(r.Ref, instance, packages, func() (*catalog.Catalog, error) {
		image, err := j.fetch(ctx, at, instance)
		if err != nil {
			return nil, err
		}
		return catalog.Read(ctx, image, packages)
	})
	switch {
	case err != nil && registry.IsTemporary(err):
		return nil, fmt.Errorf("%s: %s", at.Ref, registry.Reason(err))
	case err != nil:
		return nil, fmt.Errorf("%s: %s", at.Ref, reasonOf(err))
	}
	r.ReadAt = at.Ref
	return content, nil
}
