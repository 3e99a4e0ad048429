package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/mirrorset-guard/mirrorset-guard/test/certificates"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
)

// deniedByAll starts a registry that lets nobody in.
func deniedByAll(t *testing.T) (flags []string) {
	t.Helper()
	return clitest.RegistryAt(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	})
}

const (
	credentialFor = `{"apiVersion":"config.openshift.io/v1alpha1","kind":"CRIOCredentialProviderConfig","metadata":{"name":"cluster"},"spec":{"matchImages":[%q]}}`

	noMirrorHas   = "the source may not be contacted, and no mirror lets nodes in"
	noMirrorKnown = "the source may not be contacted, and no mirror could be verified to have the image"
	othersRemark  = "example.com/shop/cart:v1: example.com answers 401 and the global pull secret has no entry for it; add one; nodes may have other credentials through CRIOCredentialProviderConfig"
)

// TestCheckKnowsCredentialProviders: a 401 is a proof, unless nodes may have credentials
// that the guard has not.
func TestCheckKnowsCredentialProviders(t *testing.T) {
	for matches, want := range map[string][]string{
		"*.example.com/shop":  {noMirrorKnown, othersRemark},
		"*.example.com/other": {noMirrorHas, "example.com/shop/cart:v1: example.com answers 401"},
	} {
		dump := fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[%s,%s]}`, clitest.CartDeployment, fmt.Sprintf(credentialFor, matches))
		secret := clitest.Written(t, "config.json", `{"auths":{}}`)
		args := append([]string{"check", "-f", "-", "--from", clitest.Written(t, "dump.json", dump), "--pull-secret", secret}, deniedByAll(t)...)
		got := invoke(t, clitest.ShopMirror, args...)
		for _, words := range want {
			if !strings.Contains(got.Out, words) {
				t.Errorf("with matchImages %q, no %q in\n%s%s", matches, words, got.Out, got.Err)
			}
		}
	}
}

// TestServeKnowsCredentialProviders puts the same question to the webhook.
func TestServeKnowsCredentialProviders(t *testing.T) {
	c := cluster.New(t)
	c.InstallCRD(t, "config/v1alpha1/zz_generated.crd-manifests/0000_10_config-operator_01_criocredentialproviderconfigs-SelfManagedHA.crd.yaml")
	c.Apply(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`)
	c.Apply(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"openshift-config"}}`)
	c.Apply(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pull-secret","namespace":"openshift-config"},"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"{\"auths\":{}}"}}`)
	c.Apply(t, clitest.CartDeployment)
	c.Apply(t, fmt.Sprintf(credentialFor, "*.example.com"))
	g := newTestGuard(t, c.Config, deniedByAll(t)...)
	answer := askGuard(t, g, clitest.ShopMirror, 30*time.Second)
	for _, words := range []string{noMirrorKnown, othersRemark} {
		if !strings.Contains(answer.Result.Message, words) {
			t.Errorf("no %q in %s", words, answer.Result.Message)
		}
	}
}

// newTestGuard returns the server of the command serve, which follows api and is ready.
func newTestGuard(t *testing.T, api *rest.Config, flags ...string) *guard {
	t.Helper()
	g := startTestGuard(t, api, flags...)
	waitUntilReady(t, g)
	return g
}

func waitUntilReady(t *testing.T, g *guard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.WatchLimit)
	defer cancel()
	if err := errors.Join(g.cluster.WaitReady(ctx), g.world.Trust.WaitReady(ctx)); err != nil {
		t.Fatal(err)
	}
}

// startTestGuard returns the server of the command serve as it is at its start.
func startTestGuard(t *testing.T, api *rest.Config, flags ...string) *guard {
	t.Helper()
	dir := t.TempDir()
	if _, err := certificates.SelfSigned(dir, []string{"localhost"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	g := newGuardWith(t, api, logr.Discard(), append(flags, "--tls-dir", dir)...)
	t.Cleanup(g.world.Close)
	go g.cluster.Run(t.Context())     //nolint:errcheck // the test would not get ready
	go g.world.Trust.Run(t.Context()) //nolint:errcheck // as above
	return g
}
