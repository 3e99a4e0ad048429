package inspect

import (
	"crypto/tls"
	"fmt"
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

// TestCheckOtherCAs changes additionalTrustedCA of a real API server while a mirror whose
// certificate is signed by a CA of its own holds an image.
func TestCheckOtherCAs(t *testing.T) {
	mirror, ca := newPrivateMirror(t, "mirror.example.com", "shop/cart:v1")
	_, otherCA := newPrivateMirror(t, "mirror.example.com", "shop/cart:v1")
	c := newCluster(t)
	configMap := func(name, key, ca string) string {
		return fmt.Sprintf("\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: openshift-config, name: %s}\ndata: {%q: %q}\n", name, key, ca)
	}
	image := func(cas string) string {
		return "\n---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {additionalTrustedCA: {name: " + cas + "}}\n"
	}
	c.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: openshift-config}\n"+
		configMap("in-force", "mirror.example.com", ca)+configMap("renewed", "mirror.example.com", ca+otherCA)+
		configMap("wrong", "mirror.example.com", otherCA)+configMap("elsewhere", "other.example.com", otherCA)+
		image("in-force")+tagSet("shop", "quay.io/shop", "AllowContactingSource", "mirror.example.com/shop")+`
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: cart, namespace: default}
spec: {schedule: "0 4 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "quay.io/shop/cart:v1"}]}}}}}
`)
	for _, tt := range []struct {
		name, cas string
		code      int
		says      string
	}{
		{"the same", "in-force", 0, "it reroutes 0 of 1 image"},
		{"one more CA beside it", "renewed", 0, "it reroutes 1 of 1 image, all verified"},
		{"a CA that did not sign the mirror's certificate", "wrong", 1, "mirror.example.com has a certificate of an unknown authority"},
		{"the CA is for another registry", "elsewhere", 1, "mirror.example.com has a certificate of an unknown authority"},
		{"a ConfigMap that is not there", "nowhere", 1, "there is no ConfigMap openshift-config/nowhere: nodes would trust no CA through additionalTrustedCA"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(t, image(tt.cas), "check", "-f", "-", "--kubeconfig", c.Kubeconfig, "-o", "table",
				"--resolve", "mirror.example.com="+mirror, "--resolve", "quay.io=127.0.0.1:1")
			if got.Code != tt.code || !strings.Contains(got.Out, tt.says) {
				t.Errorf("exit code %d, want %d and %q\n%s%s", got.Code, tt.code, tt.says, got.Out, got.Err)
			}
		})
	}
}

// TestCheckOtherCAsOfADump is TestCheckOtherCAs with a dump, which may lack what the
// cluster has.
func TestCheckOtherCAsOfADump(t *testing.T) {
	mirror, ca := newPrivateMirror(t, "example.com", "shop/cart:v1")
	_, otherCA := newPrivateMirror(t, "example.com", "shop/cart:v1")
	image := func(cas string) string {
		return "---\napiVersion: config.openshift.io/v1\nkind: Image\nmetadata: {name: cluster}\nspec: {additionalTrustedCA: {name: " + cas + "}}\n"
	}
	bundle := func(name, key, ca string) string { return configMap(t, "openshift-config", name, key, ca) }
	dump := "---\n" + clitest.CartDeployment + "\n---\n" + clitest.ShopMirror + "\n" +
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
