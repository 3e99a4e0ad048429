package inspect

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	randomimage "github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/certs"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestCheckOtherCAsOfADump changes additionalTrustedCA while a mirror whose certificate is signed by a CA of its own holds an image. The dump
// may lack what the cluster has; a real API server has stories 128 and 129.
func TestCheckOtherCAsOfADump(t *testing.T) {
	mirror, ca := newPrivateMirror(t, "example.com", "shop/cart:v1")
	_, otherCA := newPrivateMirror(t, "example.com", "shop/cart:v1")
	image := func(cas string) string {
		return "---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {additionalTrustedCA: {name: " + cas + "}}\n"
	}
	bundle := func(name, key, ca string) string { return configMap(t, "openshift-config", name, key, ca) }
	dump := "---\n" + clitest.CartDeployment + "\n---\n" + clitest.Worker + "\n---\n" + clitest.ShopMirror + "\n" +
		bundle("renewed", "example.com", ca+otherCA) + bundle("wrong", "example.com", otherCA) +
		bundle("elsewhere", "other.example.com", otherCA) + configMap(t, "shop", "strays", "example.com", ca)
	inForce := image("in-force") + bundle("in-force", "example.com", ca)
	for _, tc := range []struct {
		name, dump, cas string
		code            int
		says            string
	}{
		{"the same", dump + inForce, "in-force", cli.ExitAdmitted, "reroutes 0 of 1 image"},
		{"one more CA beside it", dump + inForce, "renewed", cli.ExitAdmitted, "reroutes 1 of 1 image, all verified"},
		{"none before", dump, "renewed", cli.ExitAdmitted, "reroutes 1 of 1 image, all verified"},
		{"none after", dump + inForce, `""`, cli.ExitDenied, "example.com has a certificate of an unknown authority"},
		{"a CA that did not sign the mirror's certificate", dump + inForce, "wrong", cli.ExitDenied, "example.com has a certificate of an unknown authority"},
		{"the CA is for another registry", dump + inForce, "elsewhere", cli.ExitDenied, "example.com has a certificate of an unknown authority"},
		{"a ConfigMap that the dump lacks", dump + inForce, "nowhere", cli.ExitDenied, "reading ConfigMap openshift-config/nowhere: it is not in the dump"},
		{"a ConfigMap of another namespace", dump + inForce, "strays", cli.ExitDenied, "reading ConfigMap openshift-config/strays: it is not in the dump"},
		{"the dump lacks the one in force", dump + image("in-force"), "renewed", cli.ExitDenied, "reading ConfigMap openshift-config/in-force: it is not in the dump"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := invoke(t, image(tc.cas), "check", "-f", "-", "--from", clitest.Written(t, "dump.yaml", tc.dump), "-o", "table", "--allow-loopback",
				"--resolve", "example.com="+mirror, "--resolve", "quay.example.com=127.0.0.1:1")
			if got.Code != tc.code || !strings.Contains(got.Out, tc.says) {
				t.Errorf("exit code %d, want %d and %q\n%s%s", got.Code, tc.code, tc.says, got.Out, got.Err)
			}
		})
	}
}

// newPrivateMirror returns the address of a registry that holds a random image, with a
// certificate for host that is signed by a CA of its own.
func newPrivateMirror(t *testing.T, host, image string) (address, ca string) {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	plain := httptest.NewServer(handler)
	defer plain.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(plain.URL, "http://")+"/"+image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := randomimage.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	return serveTLS(t, host, handler)
}

func serveTLS(t *testing.T, host string, handler http.Handler) (address, ca string) {
	t.Helper()
	dir := t.TempDir()
	bundle, err := certificates.SelfSigned(dir, []string{host}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certs.CertFile), filepath.Join(dir, certs.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), string(bundle)
}
