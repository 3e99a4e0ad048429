package readiness

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/catalog"
)

// TestBundleImages: a bundle says which images it needs, and the images of operators have a limit.
func TestBundleImages(t *testing.T) {
	many := &catalog.Bundle{Name: "quay.v1.0.0", Image: "quay.io/quay/bundle:1"}
	for i := range maxOperatorImages - 1 {
		many.Related = append(many.Related, catalog.Related{Name: "x", Image: fmt.Sprintf("quay.io/quay/x:%d", i)})
	}
	j := new(judging)
	if err := j.bundle(many, installation{}); err != nil || j.ofOperators != maxOperatorImages {
		t.Errorf("%d images: %v", j.ofOperators, err)
	}
	if err := j.bundle(many, installation{}); err != nil {
		t.Errorf("the same again: %v", err)
	}
	one := &catalog.Bundle{Name: "quay.v1.1.0", Image: many.Image, Related: []catalog.Related{{Name: "y", Image: "quay.io/quay/y:1"}}}
	if err := j.bundle(one, installation{}); err == nil || !strings.Contains(err.Error(), "the operators need more than 10,000 images") || len(j.Images) != maxOperatorImages {
		t.Errorf("one more: %v, %d images", err, len(j.Images))
	}
	for reason, related := range map[string][]catalog.Related{
		"none":               nil,
		"that of the bundle": {{Name: "", Image: "quay.io/quay/bundle:2"}},
		"what is left open":  {{Name: "x"}, {Name: "", Image: "quay.io/quay/bundle:2"}},
	} {
		j := new(judging)
		err := j.bundle(&catalog.Bundle{Name: "quay.v1.1.0", Image: "quay.io/quay/bundle:2", Related: related}, installation{})
		if err == nil || !strings.Contains(err.Error(), "its bundle quay.v1.1.0 names none of its images") {
			t.Errorf("%s: got %v", reason, err)
		}
	}
}

// TestBundleNames: what a bundle calls an image is not noted at any length.
func TestBundleNames(t *testing.T) {
	j := new(judging)
	b := &catalog.Bundle{Name: "quay.v1.1.0", Image: "quay.io/quay/bundle:2", Related: []catalog.Related{{Name: strings.Repeat("x", 1_000_000), Image: "quay.io/quay/y:1"}}}
	if err := j.bundle(b, installation{}); err != nil {
		t.Fatal(err)
	}
	if n := len(j.Images[1].Name); n > 300 {
		t.Errorf("an image has a name of %d characters", n)
	}
}

// TestCatalogPanics: what a package has the command panic at is not known of that package, and no more.
func TestCatalogPanics(t *testing.T) {
	j := new(judging)
	j.installation(t.Context(), &readCatalog{Catalog: Catalog{Ref: "quay.io/x:1"}}, new(catalog.Package), installation{
		Package: Package{Name: "quay", By: "Subscription a/b"},
		follow:  func(context.Context, *catalog.Package) (catalog.Update, error) { panic("a range of nothing") },
	})
	if len(j.Problems) != 1 || j.Problems[0].State != Unknown || !strings.Contains(j.Problems[0].Detail[0], "quay.io/x:1: panic: a range of nothing") {
		t.Errorf("got %+v", j.Problems)
	}
}
