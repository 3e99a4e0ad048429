package whatif

import (
	"context"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// TestSpellings: a registry is the same one by whichever of its names a list of deletions, or keep, has it. It is asked by
// the name that nodes use, for which they have credentials.
func TestSpellings(t *testing.T) {
	for _, mirror := range []string{"m.example.com", "m.example.com:443"} {
		r := reviewerOf(t, 1, 1)
		objects := r.Inventory.(fixed).set.Objects
		objects[0].(*configv1.ImageDigestMirrorSet).Spec.ImageDigestMirrors[0].Mirrors = []configv1.ImageMirror{configv1.ImageMirror(mirror)}
		r.Registries = review.RegistriesFunc(func(ctx context.Context, locs []mirrors.Location) policy.Facts {
			for _, l := range locs {
				if !strings.HasPrefix(l.Ref, mirror+"/") {
					t.Errorf("%s was asked instead of %s", l.Ref, mirror)
				}
			}
			return holdsAll(ctx, locs)
		})
		for _, name := range []string{"m.example.com", "m.example.com:443", "M.example.com", "M.Example.com:443"} {
			for _, item := range []string{"@" + digestOf(0), ":" + digestOf(0)[7:]} {
				list, err := DeleteReferences([]string{name + "/team/app-0" + item})
				if err != nil {
					t.Fatal(err)
				}
				if d, err := Judge(t.Context(), r, list, review.Coming{}); err != nil || d.Allowed || d.Elsewhere > 0 || len(d.Needed) != 1 || len(d.Notes) > 0 {
					t.Errorf("%s at %s: %v\n%s%q", name+item, mirror, err, d.Answer(), d.Notes)
				}
			}
			m, err := ReadMapping("mapping.txt", strings.NewReader("quay.io/team/app-0@"+digestOf(0)+"="+name+"/team/app-0:v1\n"))
			if err != nil {
				t.Fatal(err)
			}
			if repository, _ := split(mirrors.Location{Ref: mirror + "/team/app-0:v1"}); m.to[repository] == nil {
				t.Errorf("a copy to %s is none to %s", name, mirror)
			}
			for _, scope := range []string{name, name + "/team", name + "/team/app-0"} {
				if kept, err := Keep(t.Context(), r, scope, review.Coming{}); err != nil || len(kept.Kept) != 2 || !strings.HasPrefix(kept.Kept[0].Reference, mirror+"/") {
					t.Errorf("below %s: %v, %+v", scope, err, kept)
				}
			}
		}
	}
}

// TestSimilarNames: a registry that may be a mirror by another name is named, though other items are at the mirror.
func TestSimilarNames(t *testing.T) {
	r := reviewerOf(t, 1, 1)
	for _, tt := range []struct {
		reason, item string
		notes        []string
	}{
		{"another port", "m.example.com:5000/x:1", []string{"no node of this cluster pulls from a registry of the list, but from one that is named much as it: do nodes know m.example.com:5000 as m.example.com:8443?"}},
		{"without its domain", "m:8443/x:1", []string{"no node of this cluster pulls from a registry of the list, but from one that is named much as it: do nodes know m:8443 as m.example.com:8443?"}},
		{"the mirror itself", "m.example.com:8443/x:1", nil},
		{"another registry", "other.example.com:8443/x:1", nil},
	} {
		list, err := DeleteReferences([]string{"m.example.com:8443/team/app-0:" + strings.Repeat("0", 63) + "1", tt.item})
		if err != nil {
			t.Fatal(err)
		}
		d, err := Judge(t.Context(), r, list, review.Coming{})
		if err != nil || !d.Allowed || d.Elsewhere != 1 || strings.Join(d.Notes, "\n") != strings.Join(tt.notes, "\n") {
			t.Errorf("%s: %v, %d elsewhere, %q", tt.reason, err, d.Elsewhere, d.Notes)
		}
	}
}
