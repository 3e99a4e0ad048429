package inspect

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	fakeregistry "github.com/google/go-containerregistry/pkg/registry"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// TestCheckVerifiesBlobs: of a copy that has lost a layer, by the choice of whose layers
// are looked up. The config is looked at wherever the manifest is read.
func TestCheckVerifiesBlobs(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	registry := fakeregistry.New(fakeregistry.Logger(quiet))
	layer := layerOf(t)
	var hollow atomic.Bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hollow.Load() && strings.HasSuffix(r.URL.Path, "/blobs/"+layer) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		registry.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "https://")
	push(t, server, address+"/shop/cart:v1")
	ca := clitest.Written(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for _, tc := range []struct {
		namespace string
		args      []string
		code      int
		want      string
	}{
		{"shop", nil, cli.ExitAdmitted, "all verified"},
		{"shop", []string{"--config", clitest.Written(t, "all.yaml", clitest.ConfigHeader+"verifyBlobs: all\n")}, cli.ExitDenied, "example.com serves the manifest and lacks"},
		{"openshift-ingress", nil, cli.ExitDenied, "example.com serves the manifest and lacks"},
		{"openshift-ingress", []string{"--config", clitest.Written(t, "none.yaml", clitest.ConfigHeader+"verifyBlobs: none\n")}, cli.ExitAdmitted, "all verified"},
	} {
		dump := clitest.Written(t, "dump.json", strings.Replace(clitest.CartDeployment, "shop", tc.namespace, 1))
		args := append([]string{
			"check", "-f", "-", "--from", dump, "--registry-ca", ca, "--allow-loopback", "--resolve", "example.com=" + address,
		}, tc.args...)
		hollow.Store(false)
		if got := invoke(t, clitest.ShopMirror, args...); got.Code != cli.ExitAdmitted {
			t.Errorf("%s %q, with layers: exit code %d\n%s%s", tc.namespace, tc.args, got.Code, got.Out, got.Err)
		}
		hollow.Store(true)
		if got := invoke(t, clitest.ShopMirror, args...); got.Code != tc.code || !strings.Contains(got.Out, tc.want) {
			t.Errorf("%s %q, without layers: exit code %d\n%s%s", tc.namespace, tc.args, got.Code, got.Out, got.Err)
		}
	}
}

// layerOf returns the digest of the layer of the image that push pushes.
func layerOf(t *testing.T) string {
	t.Helper()
	img, err := testregistries.Image("cart")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Layers[0].Digest.String()
}
