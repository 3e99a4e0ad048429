package readiness_test

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// A store serves signatures of release images over HTTPS, by a CA of its own.
type store struct {
	url   string
	ca    string // PEM, indented
	asked atomic.Int32
}

func newStore(t *testing.T, files map[string][]byte) *store {
	t.Helper()
	s := new(store)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		data, ok := files[strings.TrimPrefix(r.URL.Path, "/signatures/")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(data) // the client says what is wrong with it
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	s.url = server.URL + "/signatures"
	s.ca = strings.ReplaceAll(strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))), "\n", "\n    ")
	return s
}

// configMap is one of openshift-config with the CA under a key.
func (s *store) configMap(name, key string) string {
	return object("v1", "ConfigMap", "namespace: openshift-config, name: "+name, "data:\n  "+key+": |\n    "+s.ca)
}

// TestStores: where no ConfigMap has the signature, the stores that CVO would ask are asked, and what they have is verified. What they do not have
// is missing, and what they did not say is not known.
func TestStores(t *testing.T) {
	s := newStage(t, 3)
	first := strings.Replace(s.Digest, ":", "=", 1) + "/signature-1"
	second := strings.TrimSuffix(first, "1") + "2"
	good := newStore(t, map[string][]byte{first: []byte("garbage"), second: s.Signed})
	empty := newStore(t, nil)
	wrong := newStore(t, map[string][]byte{first: s.Signed[:len(s.Signed)/2], second: bytes.Repeat([]byte("x"), 60<<10)})
	const nowhere = "https://127.0.0.1:1/signatures"
	own := func(urls ...string) []string { // ClusterVersion's
		for i, u := range urls {
			urls[i] = `{url: "` + u + `", ca: {name: its-ca}}`
		}
		return []string{"channel: stable-4.20}", "channel: stable-4.20, signatureStores: [" + strings.Join(urls, ", ") + "]}"}
	}
	byDefault := []string{"verifier-public-key-redhat", "store-official: " + good.url + "\n  verifier-public-key-redhat"}
	proxyCA := []string{"", good.configMap("the-proxy", "ca-bundle.crt"), "", object("config.openshift.io/v1", "Proxy", "name: cluster", "spec: {trustedCA: {name: the-proxy}}")}
	both := func(edits ...[]string) (all []string) {
		for _, e := range edits {
			all = append(all, e...)
		}
		return all
	}
	none := []string{strings.ReplaceAll(s.Digest, ":", "-") + "-1: ", "sha256-cccc-1: "}
	const untrusted = "certificate"
	for _, tt := range []struct {
		reason string
		edits  []string
		state  readiness.State
		says   []string
	}{
		{"a store that ClusterVersion names has it, by the CA of the proxy", both(none, own(good.url), proxyCA), ready, []string{"GPG signature: READY: signed, and verified with the keys of ConfigMap openshift-config-managed/release-verification; CVO has to reach a store for it", "- " + good.url + "/" + second}},
		{"one of the release that runs has it", both(none, byDefault, proxyCA), ready, []string{"- " + good.url + "/" + second}},
		{"ClusterVersion's replace those of the release", both(none, byDefault, own(empty.url), proxyCA), notReady, []string{"; nor has the signature store", "- " + empty.url + ": it has none", "To do: oc apply -f signature-configmap.yaml"}},
		{"ClusterVersion names no store at all", both(none, byDefault, own(), proxyCA), notReady, []string{"- spec.signatureStores of ClusterVersion is empty: CVO asks no store. Unset it, and CVO asks those of the release that runs\n"}},
		{"one of two has it", both(none, own(empty.url, good.url), proxyCA), ready, nil},
		{"none of two has it", both(none, own(empty.url, empty.url+"/others"), proxyCA), notReady, []string{"; nor has any of 2 signature stores"}},
		{"one of two cannot be reached", both(none, own(empty.url, nowhere), proxyCA), unknown, []string{"; whether a signature store has one could not be determined", "- " + nowhere + ": 127.0.0.1:1 refuses connections", "- " + empty.url + ": it has none"}},
		{"half a signature, and one that is too long", both(none, own(wrong.url), proxyCA), unknown, []string{wrong.url + ": signature-2: it has more than 50 KiB", wrong.url + "/" + first + ": "}},
		{"no CA that is trusted", both(none, byDefault), unknown, []string{untrusted}},
		{"the nodes' CA is not CVO's", both(none, byDefault, []string{"", good.configMap("user-ca-bundle", "ca-bundle.crt")}), unknown, []string{untrusted}},
		{"the CA beside a store, which CVO does not read", both(none, own(good.url), []string{"", good.configMap("its-ca", "ca.crt")}), unknown, []string{": its certificate is of an unknown authority; CVO trusts the CA that spec.trustedCA of Proxy cluster names, and does not read the one beside a store"}},
		{"a ConfigMap has the signature", both(own(good.url), proxyCA), ready, nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			good.asked.Store(0)
			w := worldOf(t, s.with(t, tt.edits...), true)
			r, err := readiness.Judge(t.Context(), w, find(t, w, testrelease.Version))
			if err != nil {
				t.Fatal(err)
			}
			if r.State() != tt.state || r.Signature.State != tt.state {
				t.Errorf("got %s, want %s", r.State(), tt.state)
			}
			for _, want := range tt.says {
				if !strings.Contains(r.Answer().String(), want) {
					t.Errorf("no %q in\n%s", want, r.Answer().String())
				}
			}
			if tt.edits[0] != none[0] && good.asked.Load() > 0 {
				t.Errorf("a store was asked, though a ConfigMap has the signature")
			}
		})
	}
}
