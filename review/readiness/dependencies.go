package readiness

import (
	"context"
	"errors"
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/internal/panics"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/catalog"
)

// maxRequired bounds how often catalogs are read again for packages that bundles require, which may require others.
const maxRequired = 5

// A need is a requirement of a bundle that an update installs, or that another need brings.
type need struct {
	installation // the package that is updated
	source       *readCatalog
	bundle       string
	requires     catalog.Requirement
}

// The keys of what a namespace has: OLM resolves each by itself.
type (
	packageIn struct{ namespace, name string }
	kindIn    struct {
		namespace string
		kind      catalog.Kind
	}
)

// A resolution finds what OLM installs beside the packages that are updated.
type resolution struct {
	*judging
	// packages are those that are installed, whose bundle is nil, or will be.
	packages map[packageIn]*catalog.Bundle
	kinds    map[kindIn]bool
}

// dependencies enters the images of packages that updates newly depend on (operator-lifecycle-manager, resolver.go,
// getBundleVariables): what the bundle that is installed requires, too, is there already.
func (j *judging) dependencies(ctx context.Context, sources []readCatalog, installed []installation) {
	r := &resolution{j, map[packageIn]*catalog.Bundle{}, map[kindIn]bool{}}
	for _, i := range installed {
		if i.kind == subscriptionKind {
			r.packages[packageIn{i.namespace, i.Name}] = nil
		}
	}
	var open, kinds []need
	for k := range sources {
		for _, f := range sources[k].followed {
			open = append(open, r.needs(&sources[k], &f)...)
		}
	}
	for range maxRequired {
		open, kinds = split(open, kinds)
		open = r.install(ctx, open)
	}
	open, kinds = split(open, kinds)
	for _, n := range open {
		r.unknown(n, errors.New("which requires others in turn"))
	}
	for _, n := range kinds {
		if !r.kinds[kindIn{n.namespace, n.requires.Kind}] {
			r.unknown(n, errors.New("and it is not known which operator provides it"))
		}
	}
}

// needs returns what the update of a package requires that was not there before.
func (r *resolution) needs(s *readCatalog, f *followed) []need {
	had := map[catalog.Requirement]bool{}
	if f.installed != nil {
		for _, requires := range f.installed.Requires {
			had[requires] = true
		}
		r.provide(f.installation, f.installed)
	}
	var all []need
	for _, b := range f.bundles {
		r.provide(f.installation, b)
		for _, requires := range b.Requires {
			if !had[requires] {
				had[requires] = true
				all = append(all, need{f.installation, s, b.Name, requires})
			}
		}
	}
	return all
}

// provide notes which kinds OLM knows a bundle to provide. It does not look at those of OLM v1.
func (r *resolution) provide(i installation, b *catalog.Bundle) {
	for _, kind := range b.Provides {
		if i.kind == subscriptionKind {
			r.kinds[kindIn{i.namespace, kind}] = true
		}
	}
}

// split moves needs of kinds, which any bundle may provide that is installed in the end.
func split(open, kinds []need) (packages, others []need) {
	for _, n := range open {
		if n.requires.Kind != (catalog.Kind{}) && n.kind == subscriptionKind {
			kinds = append(kinds, n)
		} else {
			packages = append(packages, n)
		}
	}
	return packages, kinds
}

// install enters what OLM installs for needs, and returns what that needs in turn.
func (r *resolution) install(ctx context.Context, open []need) []need {
	missing := map[*readCatalog][]string{}
	for _, n := range open {
		if _, known := n.source.packages[n.requires.Package]; r.isMissing(n) && !known {
			n.source.packages[n.requires.Package] = nil
			missing[n.source] = append(missing[n.source], n.requires.Package)
		}
	}
	unread := map[*readCatalog]error{}
	for s, names := range missing {
		unread[s] = r.readInto(ctx, s, names)
	}
	var further []need
	for _, n := range open {
		err := unread[n.source]
		if err == nil {
			err = panics.Recovered(func() error {
				more, err := r.installOne(n)
				further = append(further, more...)
				return err
			})
		}
		if err != nil {
			r.unknown(n, err)
		}
	}
	return further
}

func (r *resolution) isMissing(n need) bool {
	_, has := r.packages[packageIn{n.namespace, n.requires.Package}]
	return n.requires.Package != "" && n.kind == subscriptionKind && !has
}

func (r *resolution) installOne(n need) ([]need, error) {
	if n.kind == extensionKind { // internal/operator-controller/resolve/validation.go
		return nil, errors.New("and OLM v1 installs no bundle that requires others")
	}
	if n.requires.Package == "" {
		return nil, errors.New("what OLM would install for it is not known")
	}
	at := packageIn{n.namespace, n.requires.Package}
	chosen, has := r.packages[at]
	if has && chosen == nil {
		return nil, nil // its own update is judged
	}
	p := n.source.packages[n.requires.Package]
	switch {
	case p == nil:
		return nil, errors.New("which is not installed, and not in this catalog")
	case p.Fault != nil:
		return nil, p.Fault
	}
	b, err := p.Required(n.requires.Range)
	switch {
	case err != nil:
		return nil, err
	case chosen != nil && chosen.Name != b.Name:
		return nil, fmt.Errorf("and another bundle requires %s of it", text.Line(chosen.Name))
	case chosen != nil:
		return nil, nil
	}
	r.packages[at] = b
	i := n.installation
	i.Package = Package{Name: p.Name, By: n.By + ", whose bundle " + text.Line(n.bundle) + " requires it"}
	r.enter(n.source, i, []*catalog.Bundle{b})
	return r.needs(n.source, &followed{i, nil, []*catalog.Bundle{b}}), nil
}

// unknown says that it was not judged what OLM would install for a need.
func (r *resolution) unknown(n need, err error) {
	r.unknownImages(n.source, n.installation, fmt.Errorf("its bundle %s requires %s, %w: the images for that were not judged", text.Line(n.bundle), n.requires, err))
}
