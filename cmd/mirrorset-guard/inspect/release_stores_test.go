package inspect

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// A signatureStore serves signatures of release images over HTTPS, by a CA of its own.
type signatureStore struct {
	*httptest.Server
	ca    string // PEM
	asked atomic.Int32
}

func newSignatureStore(t *testing.T, files map[string][]byte) *signatureStore {
	t.Helper()
	s := new(signatureStore)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		data, ok := files[strings.TrimPrefix(r.URL.Path, "/signatures/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data) // the client says what is wrong with it
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return s
}

// configMap is one of openshift-config with the CA under a key.
func (s *signatureStore) configMap(name, key string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: openshift-config, name: %s}\ndata:\n  %s: |\n    %s\n", name, key, strings.ReplaceAll(strings.TrimSpace(s.ca), "\n", "\n    "))
}

// TestReleaseStores: where no ConfigMap has the signature, the stores that CVO would ask are asked if one wants it, and what they have is
// verified. What they do not have is missing, and what they did not say is not known.
func TestReleaseStores(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 6)}
	s.Without()
	first := strings.Replace(s.Digest, ":", "=", 1) + "/signature-1"
	second := strings.TrimSuffix(first, "1") + "2"
	good := newSignatureStore(t, map[string][]byte{first: []byte("garbage"), second: s.Signed})
	empty := newSignatureStore(t, nil)
	wrong := newSignatureStore(t, map[string][]byte{first: s.Signed[:len(s.Signed)/2], second: bytes.Repeat([]byte("x"), 60<<10)})
	const nowhere = "https://127.0.0.1:1/signatures"
	own := func(stores ...string) string { // by spec.signatureStores
		return strings.Replace(s.Objects(nil), "channel: stable-4.20}", "channel: stable-4.20, signatureStores: ["+strings.Join(stores, ", ")+"]}", 1)
	}
	named := func(store *signatureStore, ca string) string {
		return `{url: "` + store.URL + `/signatures", ca: {name: "` + ca + `"}}`
	}
	byDefault := func(address string) string { // by the release that runs
		return strings.Replace(s.Objects(nil), "verifier-public-key-redhat", "store-official: "+address+"\n  verifier-public-key-redhat", 1)
	}
	proxyCA := good.configMap("the-proxy", "ca-bundle.crt") + "---\napiVersion: config.openshift.io/v1\nkind: Proxy\nmetadata: {name: cluster}\nspec: {trustedCA: {name: the-proxy}}\n"
	for _, tt := range []struct {
		reason, objects string
		code            int
		want            []string
	}{
		{
			"a store that ClusterVersion names has it, by the CA of the proxy, which counts for all stores",
			own(named(good, "its-ca")) + proxyCA, cli.ExitAdmitted,
			[]string{"GPG signature: READY: signed, and verified with the keys of ConfigMap openshift-config-managed/release-verification; CVO has to reach a store for it", "- " + good.URL + "/signatures/" + second},
		},
		{
			"one of the release that runs has it, by the CA of the proxy", byDefault(good.URL+"/signatures") + proxyCA, cli.ExitAdmitted,
			[]string{"GPG signature: READY", "- " + good.URL + "/signatures/" + second},
		},
		{
			"ClusterVersion's replace those of the release", strings.Replace(byDefault(good.URL+"/signatures")+proxyCA, "channel: stable-4.20}", "channel: stable-4.20, signatureStores: ["+named(empty, "its-ca")+"]}", 1), cli.ExitDenied,
			[]string{"GPG signature: NOT READY: no ConfigMap of openshift-config-managed with label release.openshift.io/verification-signatures has a signature of " + s.Digest + "; nor has the signature store", "- " + empty.URL + "/signatures: it has none", "To do: oc apply -f signature-configmap.yaml"},
		},
		{
			"one of two has it", own(named(empty, "a"), named(good, "b")) + proxyCA, cli.ExitAdmitted,
			[]string{"GPG signature: READY"},
		},
		{
			"none of two has it", own(named(empty, "a"), `{url: "`+empty.URL+`/others", ca: {name: a}}`) + proxyCA, cli.ExitDenied,
			[]string{"GPG signature: NOT READY", "; nor has any of 2 signature stores"},
		},
		{
			"one of two cannot be reached", own(named(empty, "a"), `{url: "`+nowhere+`", ca: {name: a}}`) + proxyCA, cli.ExitTrouble,
			[]string{"GPG signature: UNKNOWN", "; whether a signature store has one could not be determined", "- " + nowhere + ": 127.0.0.1:1 refuses connections", "- " + empty.URL + "/signatures: it has none"},
		},
		{
			"half a signature, and one that is too long", own(named(wrong, "a")) + proxyCA, cli.ExitTrouble,
			[]string{"GPG signature: UNKNOWN", wrong.URL + "/signatures: signature-2: it has more than 50 KiB", wrong.URL + "/signatures/" + first + ": "},
		},
		{
			"no CA that is trusted", byDefault(good.URL + "/signatures"), cli.ExitTrouble,
			[]string{"GPG signature: UNKNOWN", "certificate"},
		},
		{
			"the nodes' CA is not CVO's", byDefault(good.URL+"/signatures") + good.configMap("user-ca-bundle", "ca-bundle.crt"), cli.ExitTrouble,
			[]string{"GPG signature: UNKNOWN", "certificate"},
		},
		{
			"the CA beside a store, which CVO does not read", own(named(good, "its-ca")) + good.configMap("its-ca", "ca.crt"), cli.ExitTrouble,
			[]string{"GPG signature: UNKNOWN", ": its certificate is of an unknown authority; CVO trusts the CA that spec.trustedCA of Proxy cluster names, and does not read the one beside a store"},
		},
		{
			"ClusterVersion names no store at all", strings.Replace(byDefault(good.URL+"/signatures")+proxyCA, "channel: stable-4.20}", "channel: stable-4.20, signatureStores: []}", 1), cli.ExitDenied,
			[]string{"GPG signature: NOT READY: no ConfigMap of ", "- spec.signatureStores of ClusterVersion is empty: CVO asks no store. Unset it, and CVO asks those of the release that runs\n"},
		},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			wantOutcome(t, s.check(t, clitest.Written(t, "dump.yaml", tt.objects), testrelease.Version, "--signature-stores"), tt.code, tt.want...)
		})
	}
	mine := clitest.Written(t, "mine.pem", good.ca)
	wantOutcome(t, s.check(t, clitest.Written(t, "dump.yaml", byDefault(good.URL+"/signatures")), testrelease.Version, "--signature-stores", "--registry-ca", mine), cli.ExitTrouble, "GPG signature: UNKNOWN", "certificate")
	none := strings.Replace(byDefault(nowhere), "channel: stable-4.20}", "channel: stable-4.20, signatureStores: []}", 1)
	wantOutcome(t, s.check(t, clitest.Written(t, "none.yaml", none), testrelease.Version), cli.ExitDenied, "GPG signature: NOT READY", "spec.signatureStores of ClusterVersion is empty")
	again := clitest.Written(t, "again.json", invoke(t, "", "snapshot", "--from", clitest.Written(t, "none.yaml", none)).Out)
	wantOutcome(t, s.check(t, again, testrelease.Version), cli.ExitDenied, "spec.signatureStores of ClusterVersion is empty")
	good.asked.Store(0)
	inMap := strings.Replace(s.Objects(s.Signed), "channel: stable-4.20}", "channel: stable-4.20, signatureStores: ["+named(good, "its-ca")+"]}", 1) + good.configMap("its-ca", "ca.crt")
	wantOutcome(t, s.check(t, clitest.Written(t, "both.yaml", inMap), testrelease.Version, "--signature-stores"), cli.ExitAdmitted, "GPG signature: READY")
	wantOutcome(t, s.check(t, clitest.Written(t, "not.yaml", own(named(good, "its-ca"))), testrelease.Version), cli.ExitTrouble, "CVO would then ask "+good.URL+"/signatures, which was not asked: --signature-stores asks it from here")
	if n := good.asked.Load(); n != 0 {
		t.Errorf("a store was asked %d times, though a ConfigMap has the signature, or nobody wanted it", n)
	}
	for flag, want := range map[string]string{"--ack": "--ack is about signatures that nodes require", "": "--signature-stores: only with --release"} {
		args := []string{"check", "--signature-stores", "--from", clitest.Written(t, "dump.yaml", inMap)}
		if flag != "" {
			args = append(args, "--release", "next", flag)
		}
		wantOutcome(t, invoke(t, "", args...), cli.ExitTrouble, want)
	}
}

// TestReleaseStoresDoors: a live cluster, and a snapshot of it, have the CA by which CVO knows a store.
func TestReleaseStoresDoors(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Without()
	store := newSignatureStore(t, map[string][]byte{strings.Replace(s.Digest, ":", "=", 1) + "/signature-1": s.Signed})
	c := newCluster(t)
	// The API of other feature sets has no signatureStores yet.
	install(t, c.Cluster, "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-TechPreviewNoUpgrade.crd.yaml", "clusterversions.config.openshift.io")
	objects := strings.Replace(s.Objects(nil), "channel: stable-4.20}", `channel: stable-4.20, signatureStores: [{url: "`+store.URL+`/signatures"}]}`, 1)
	apply(t, c.Cluster, objects+store.configMap("the-proxy", "ca-bundle.crt")+"---\napiVersion: config.openshift.io/v1\nkind: Proxy\nmetadata: {name: cluster}\nspec: {trustedCA: {name: the-proxy}}\n")
	const want = "GPG signature: READY: signed, and verified"
	wantOutcome(t, invoke(t, "", "check", "--release", "next", "--kubeconfig", c.Kubeconfig, "--allow-loopback", "--signature-stores"), cli.ExitAdmitted, want)
	file := filepath.Join(t.TempDir(), "cluster.json")
	if got := invoke(t, "", "snapshot", "--kubeconfig", c.Kubeconfig, "-f", file); got.Code != 0 {
		t.Fatal(got.Err)
	}
	wantOutcome(t, s.check(t, file, "next", "--signature-stores"), cli.ExitAdmitted, want)
}
