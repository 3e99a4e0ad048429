package mirrors

import (
	"errors"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// TestMended: what is to be written instead works, whichever of the causes it was, or several at once.
func TestMended(t *testing.T) {
	const none = configv1.MirrorSourcePolicy("")
	seen := 0
	for _, ref := range []string{"quay.io/shop/cart:v1", "quay.io:5000/shop/cart:v1", "registry.svc:5000/shop/cart@" + digestA} {
		for _, source := range []string{"quay.io", "quay.io/shop", "quay.io/shop/cart", "*.svc", "registry.svc"} {
			for _, mirror := range []string{"m.local", "m.local/x", "m", "m/x", "m:5000", "index.docker.io", "index.docker.io/x"} {
				object := itms
				if strings.Contains(ref, "@") {
					object = idms
				}
				route := func(source, mirror string) Route {
					table, err := Resolve(Set{Objects: []Object{object("o", source, none, configv1.ImageMirror(mirror))}})
					if err != nil {
						t.Fatal(source, mirror, err)
					}
					r, err := table.Route(ref, "")
					if err != nil {
						t.Fatal(ref, err)
					}
					return r
				}
				e := (*RewriteError)(nil)
				if !errors.As(route(source, mirror).Err, &e) {
					continue
				}
				seen++
				s, m := e.Mended()
				if m == "" {
					t.Errorf("%s by %s to %s: not to be mended", ref, source, mirror)
					continue
				}
				if after := route(s, m); after.Err != nil || len(after.Sources) != 2 {
					t.Errorf("%s by %s to %s: to be mended by %q to %q, which gives %+v", ref, source, mirror, s, m, after)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d of the routes need mending", seen)
	}
}
