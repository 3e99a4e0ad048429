package sync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// TestRescue: must-gather, which nothing runs, is copied where that is asked for, and what else only history
// names is not.
func TestRescue(t *testing.T) {
	s := newShop(t)
	t.Setenv("REGISTRY_AUTH_FILE", clitest.Written(t, "nothing.json", "{}"))
	objects := s.objects()
	for _, stream := range []string{"openshift/must-gather", "shop/gather"} {
		img, err := registries.Image(stream)
		if err != nil {
			t.Fatal(err)
		}
		s.push(t, "shop/"+stream+":v1", img, nil)
		namespace, name, _ := strings.Cut(stream, "/")
		objects += fmt.Sprintf(`---
apiVersion: image.openshift.io/v1
kind: ImageStream
metadata: {namespace: %s, name: %s}
status: {tags: [{tag: latest, items: [{dockerImageReference: %q}]}]}
`, namespace, name, s.source.host+"/shop/"+stream+":v1")
	}
	s.dump = clitest.Written(t, "cluster.yaml", objects)
	wantCode(t, s.sync(t, "-f", s.change, "--dry-run", "--push-secret", s.secret), 1, "To "+s.mirror.host+": 2 images, ")
	wantCode(t, s.sync(t, "-f", s.change, "--rescue", "--dry-run", "--push-secret", s.secret), 1, "To "+s.mirror.host+": 3 images, ")
	wantCode(t, s.sync(t, "-f", s.change, "--history", "--dry-run", "--push-secret", s.secret), 1, "To "+s.mirror.host+": 4 images, ")
	wantCode(t, s.sync(t, "-f", s.change, "--push-secret", s.secret), 0, "RescueMissing", "is admitted")
	wantCode(t, s.sync(t, "-f", s.change, "--rescue", "--push-secret", s.secret), 0, "Copied 1 of 1 image", "is admitted", "all verified")
	wantCode(t, s.sync(t, "-f", s.change, "--rescue", "--push-secret", s.secret), 0, "Nothing is to be copied", "is admitted")
}
