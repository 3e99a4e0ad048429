package release_test

import (
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
)

// A storeServer is a signature store with a certificate of its own, which writes down what it is asked.
type storeServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newStoreServer(t *testing.T, serve http.HandlerFunc) *storeServer {
	t.Helper()
	s := new(storeServer)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.Path)
		s.mu.Unlock()
		serve(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *storeServer) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *storeServer) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

// has serves files below /base/sha256=0a.
func has(files map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/base/sha256=0a/")
		content, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, content)
	}
}

// TestSignatureStore: stores are asked as CVO asks them; what could not be read is an error, and what is not there is none.
func TestSignatureStore(t *testing.T) {
	all := map[string]string{}
	for n := range 20 {
		all[fmt.Sprintf("signature-%d", n+1)] = fmt.Sprint(n + 1)
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for chunk := strings.Repeat("x", 1<<10); ; {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
	for _, tt := range []struct {
		reason  string
		serve   http.HandlerFunc
		address string // "" for the server's
		enough  string
		want    []string
		asked   int
		err     string
	}{
		{reason: "none", serve: has(nil), asked: 1},
		{reason: "two", serve: has(map[string]string{"signature-1": "a", "signature-2": "b"}), want: []string{"a", "b"}, asked: 3},
		{reason: "the first is enough", serve: has(map[string]string{"signature-1": "a", "signature-2": "b"}), enough: "a", want: []string{"a"}, asked: 1},
		{reason: "an empty one is passed over", serve: has(map[string]string{"signature-1": "", "signature-2": "b"}), want: []string{"b"}, asked: 3},
		{reason: "no more than CVO reads", serve: has(all), want: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, asked: 9},
		{reason: "one without end", serve: endless, asked: 9, err: "it has more than 50 KiB, which no signature has"},
		{reason: "one may not be read, and the next may", serve: func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "-1") {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			has(map[string]string{"signature-2": "b"})(w, r)
		}, want: []string{"b"}, asked: 3, err: "signature-1: it answers 403"},
		{reason: "a server that does not answer", serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, asked: 1, err: "did not answer within"},
		{reason: "a redirect is followed", serve: func(w http.ResponseWriter, r *http.Request) {
			if moved, ok := strings.CutPrefix(r.URL.Path, "/base/"); ok {
				http.Redirect(w, r, "/moved/"+moved, http.StatusFound)
				return
			}
			r.URL.Path = strings.Replace(r.URL.Path, "/moved/", "/base/", 1)
			has(map[string]string{"signature-1": "a"})(w, r)
		}, want: []string{"a"}, asked: 4},
		{reason: "redirects in a circle", serve: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, asked: 10, err: "redirects more than 10 times"},
		{reason: "a redirect to where the cloud has credentials", serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}, asked: 1, err: "a link-local address, which is never asked"},
		{reason: "a store of files", address: "file:///tmp", err: "CVO knows no stores by file"},
		{reason: "credentials", address: "https://a:b@example.com/", err: "its address has credentials in it"},
		{reason: "no URL", address: "::", err: "its address is no URL"},
	} {
		s := newStoreServer(t, tt.serve)
		address := tt.address
		if address == "" {
			address = s.URL + "/base/"
		}
		options := registry.Options{AllowLoopback: true, Timeout: time.Minute, DialTimeout: time.Minute}
		if strings.Contains(tt.err, "did not answer within") {
			options.Timeout = 3 * time.Second // in which a busy machine connects
		}
		client := registry.NewClient(options)
		files := client.Files(s.roots())
		var got []string
		err := release.SignatureStore{URL: address, Get: files.Get}.Signatures(t.Context(), "sha256:0a", func(at string, signature []byte) bool {
			if !strings.HasPrefix(at, s.URL+"/base/sha256=0a/signature-") {
				t.Errorf("%s: read from %s", tt.reason, at)
			}
			got = append(got, string(signature))
			return string(signature) == tt.enough
		})
		if !slices.Equal(got, tt.want) || len(s.paths()) != tt.asked || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %q, error %v, asked %q", tt.reason, got, err, s.paths())
		}
		files.Close()
		client.Close()
	}
}

// TestSignatureStoreTrust: a store whose certificate is by another CA was not read.
func TestSignatureStoreTrust(t *testing.T) {
	s := newStoreServer(t, has(map[string]string{"signature-1": "a"}))
	client := registry.NewClient(registry.Options{AllowLoopback: true})
	defer client.Close()
	files := client.Files(x509.NewCertPool())
	defer files.Close()
	err := release.SignatureStore{URL: s.URL + "/base", Get: files.Get}.Signatures(t.Context(), "sha256:0a", func(string, []byte) bool {
		t.Error("it was read")
		return true
	})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}
