package sync

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// TestLostLayer: a layer that the mirror has lost of one part of an index is sent again.
func TestLostLayer(t *testing.T) {
	s := newShop(t)
	nobody(t)
	s.dump = clitest.Written(t, "cluster.yaml", s.objects()+withoutSecrets+"---\n"+s.mirrorSets())
	wantCode(t, s.sync(t, "--push-secret", s.secret), 0, "Copied 2 of 2 images")
	s.loseLayer(t, "amd64")
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 1, "its part for linux/amd64 lacks ")
	wantCode(t, s.sync(t, "--push-secret", s.secret), 0, "Copied 1 of 1 image", "all verified")
}

// loseLayer has the mirror lose the layer of the router's part for an architecture.
func (s *shop) loseLayer(t *testing.T, architecture string) {
	t.Helper()
	router, err := registries.IndexOf("router", "linux/amd64", "linux/arm64")
	if err != nil {
		t.Fatal(err)
	}
	list, err := router.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Manifests {
		if d.Platform.Architecture != architecture {
			continue
		}
		part, err := router.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		m, err := part.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+s.mirror.host+"/v2/ocp/router/blobs/"+m.Layers[0].Digest.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(pusher, canary)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
			t.Fatalf("the mirror answers %s to the deletion of a layer", resp.Status)
		}
	}
}

// TestInForce: without a change, what is missing and cannot be copied ends with 1, though nobody could pull it before the mirrors
// either, which is no objection to a change.
func TestInForce(t *testing.T) {
	s := newShop(t)
	nobody(t)
	const gone = "sha256:4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece4ece"
	objects := s.objects() + withoutSecrets
	lost := strings.Replace(objects, "shop/cart:v1", "ocp/router@"+gone, 1)
	s.dump = clitest.Written(t, "cluster.yaml", lost)
	wantCode(t, s.sync(t, "-f", s.change, "--push-secret", s.secret), 0, "failed: ", "is admitted: it reroutes 2 of 2 images, 1 verified")

	s.dump = clitest.Written(t, "cluster.yaml", lost+"---\n"+s.mirrorSets())
	const found = "The mirror configuration in force reroutes 2 of 2 images: 1 verified, 1 not there as nodes need it."
	wantCode(t, s.sync(t, "--push-secret", s.secret), 1, "failed: ", found)
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 1, found)

	s.dump = clitest.Written(t, "cluster.yaml", objects+"---\n"+s.mirrorSets())
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 1, "The mirror configuration in force has faults: 1 of the 2 images it reroutes could not be pulled safely.", "To "+s.mirror.host+": 1 image, ")
	wantCode(t, s.sync(t, "--push-secret", s.secret), 0, "Copied 1 of 1 image", "The mirror configuration in force reroutes 2 of 2 images: all verified.")
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 0, "all verified")

	// MCO rejects the configuration, and what nodes have is not in the dump.
	const wild = "---\napiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: wild}\nspec: {imageTagMirrors: [{source: '*.example.com', mirrors: [m.example.com]}]}\n"
	s.dump = clitest.Written(t, "cluster.yaml", strings.Replace(objects, "insecureRegistries: [", "insecureRegistries: [a.example.com/x, ", 1)+"---\n"+s.mirrorSets()+wild)
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--dry-run"), 2, "what nodes need is not fully known: machineconfigs: the Machine Config Operator rejects the configuration in force")
}

// TestMaxBytes: what there is no room for is said, with the exit code of what is not done, and left whole to the next run.
func TestMaxBytes(t *testing.T) {
	s := newShop(t)
	nobody(t)
	s.dump = clitest.Written(t, "cluster.yaml", s.objects()+"---\n"+s.mirrorSets())
	before := s.mirror.writes()
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		wantCode(t, s.sync(t, append(flags, "--push-secret", s.secret, "--max-bytes", "1")...), 1,
			"Not copied: ", "--max-bytes leaves no room for it in this run", "--max-bytes 1 left 2 images for another run, with ")
	}
	if n := s.mirror.writes() - before; n != 0 {
		t.Errorf("%d requests write to the mirror", n)
	}
	wantCode(t, s.sync(t, "--push-secret", s.secret, "--max-bytes", "1Mi"), 0, "Copied 2 of 2 images", "all verified")
}
