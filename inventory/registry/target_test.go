package registry

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// FuzzTarget: the fast path reads what containers/image reads.
func FuzzTarget(f *testing.F) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, ref := range []string{
		"quay.io/team/app:v1", "reg.local:5000/a@" + digest, "quay.io/a", "quay.io/a:v1@" + digest,
		"docker.io/nginx", "index.docker.io/library/nginx:1", "nginx", "localhost/a:1", "[::1]:5000/a", "Quay.io/a",
	} {
		f.Add(ref, false, true)
	}
	f.Fuzz(func(t *testing.T, ref string, insecure, blobs bool) {
		l := mirrors.Location{Ref: ref, Insecure: insecure}
		if blobs {
			l.Depth = mirrors.DepthBlobs
		}
		got, err := parseTarget(l)
		want, wantErr := parseAnyTarget(l)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%q: got %+v, %v, want %+v, %v", ref, got, err, want, wantErr)
		}
	})
}
