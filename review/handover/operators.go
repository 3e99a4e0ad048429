package handover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// Operators are the packages that a cluster has subscribed to, and where their catalogs are.
type Operators struct {
	Subscriptions []*objects.Subscription
	// Catalogs are the images of the CatalogSources, by NAMESPACE/NAME.
	Catalogs map[string]string
	// Unread says why it is not known what the cluster has subscribed to; "" if it is.
	Unread string
}

// OperatorsOf returns what is installed, with the catalogs that are among all images.
func OperatorsOf(installed *objects.Operators, all policy.Images) Operators {
	return Operators{Subscriptions: installed.Subscriptions, Unread: installed.Unread, Catalogs: images.Catalogs(all)}
}

// The part of an ImageSetConfiguration about operators.
type operator struct {
	Catalog  string            `json:"catalog"`
	Packages []operatorPackage `json:"packages"`
}

type operatorPackage struct {
	Name     string            `json:"name"`
	Channels []operatorChannel `json:"channels,omitempty"`
}

type operatorChannel struct {
	Name       string `json:"name"`
	MinVersion string `json:"minVersion,omitempty"`
	MaxVersion string `json:"maxVersion,omitempty"`
}

// of returns the packages whose ClusterServiceVersions are to be copied, by catalog, with all others that the cluster has from the same
// catalog, as oc-mirror pushes a catalog of nothing else under its tag; at the very versions that the cluster has. And it returns
// what cannot be expressed: oc-mirror wants the catalog at its source, and a CatalogSource may name the copy below destination.
func (o Operators) of(installed []string, destination string) (operators []operator, unexpressed []string) {
	at := map[string]int{}
	seen := map[string]bool{}
	sorted := slices.SortedFunc(slices.Values(o.Subscriptions), func(a, b *objects.Subscription) int {
		return cmp.Or(strings.Compare(a.Spec.Package, b.Spec.Package), strings.Compare(a.Spec.Channel, b.Spec.Channel))
	})
	wanted := map[string]bool{} // catalogs
	for _, s := range sorted {
		if slices.Contains(installed, s.Status.InstalledCSV) {
			wanted[o.Catalogs[s.Spec.SourceNamespace+"/"+s.Spec.Source]] = true
		}
	}
	for _, s := range sorted {
		catalog := o.Catalogs[s.Spec.SourceNamespace+"/"+s.Spec.Source]
		host, _, _ := strings.Cut(catalog, "/")
		mirror, _, _ := strings.Cut(destination, "/")
		p := packageOf(s)
		key := fmt.Sprint(catalog, p)
		switch {
		case seen[key] || !slices.Contains(installed, s.Status.InstalledCSV) && (catalog == "" || host == mirror || !wanted[catalog]):
			continue
		case catalog == "":
			unexpressed = append(unexpressed, fmt.Sprintf("package %s, of whose CatalogSource %s/%s no image is known", s.Spec.Package, s.Spec.SourceNamespace, s.Spec.Source))
			continue
		case host == mirror:
			unexpressed = append(unexpressed, fmt.Sprintf("package %s, whose catalog is at the mirror itself (%s): name the one that it was mirrored from", s.Spec.Package, catalog))
			continue
		}
		seen[key] = true
		i, ok := at[catalog]
		if !ok {
			i = len(operators)
			at[catalog] = i
			operators = append(operators, operator{Catalog: catalog})
		}
		operators[i].Packages = append(operators[i].Packages, p)
	}
	return operators, unexpressed
}

// packageOf returns the package at the version that is installed, as far as the name of the
// ClusterServiceVersion shows it (PACKAGE.v1.2.3).
func packageOf(s *objects.Subscription) operatorPackage {
	p := operatorPackage{Name: s.Spec.Package}
	if s.Spec.Channel == "" {
		return p // the catalog's default channel
	}
	_, version, _ := strings.Cut(s.Status.InstalledCSV, ".v")
	p.Channels = []operatorChannel{{Name: s.Spec.Channel, MinVersion: version, MaxVersion: version}}
	return p
}
