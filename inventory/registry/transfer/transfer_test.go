package transfer

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// carrierTo returns what carries requests to a registry with an entry of a pull secret for its host and a path.
func carrierTo(t *testing.T, registry http.HandlerFunc, path, auth string) (carrier http.RoundTripper, host string) {
	t.Helper()
	front := httptest.NewServer(registry)
	t.Cleanup(front.Close)
	host = strings.TrimPrefix(front.URL, "http://")
	credentials, err := pullsecret.Parse([]byte(`{"auths":{"` + host + path + `":{"auth":"` + auth + `"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	client := wire.NewClient(wire.Options{AllowLoopback: true, Credentials: credentials})
	t.Cleanup(client.Close)
	if carrier, err = New(client, mirrors.Location{Ref: host + "/app:1", Insecure: true}, false); err != nil {
		t.Fatal(err)
	}
	return carrier, host
}

// TestWhatIsSent: credentials go to the registry alone, and nothing goes to it that belongs to no repository. What copying and
// reading releases make of this, their packages test.
func TestWhatIsSent(t *testing.T) {
	seen := map[string]string{} // authorization by path
	serve := func(w http.ResponseWriter, r *http.Request) {
		seen[r.URL.Path] = r.Header.Get("Authorization")
		if r.URL.Path == "/v2/" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	storage := httptest.NewServer(http.HandlerFunc(serve))
	defer storage.Close()
	carrier, host := carrierTo(t, serve, "", "dXNlcjpjYW5hcnk=")
	for _, tc := range []struct {
		url, path, want string
		refused         bool
	}{
		{"https://" + host, "/v2/app/blobs/sha256:a", "Basic dXNlcjpjYW5hcnk=", false},
		{storage.URL, "/app/blob", "", false},
		{"https://" + host, "/v2/_catalog", "", true},
		{"https://" + host, "/admin", "", true},
	} {
		req := httptest.NewRequest(http.MethodGet, tc.url+tc.path+"?signature=canary", http.NoBody)
		req.Header.Set("Authorization", "of the library")
		resp, err := carrier.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
			if shown := resp.Request.URL.String(); shown != tc.url+tc.path {
				t.Errorf("errors of libraries have %s", shown)
			}
		}
		got, sent := seen[tc.path]
		if (err != nil) != tc.refused || sent == tc.refused || got != tc.want {
			t.Errorf("%s%s: sent %t with %q, %v", tc.url, tc.path, sent, got, err)
		}
	}
}

// TestBrokenEntry: libraries ask GET /v2/ first, which needs no credential. Nothing else is sent.
func TestBrokenEntry(t *testing.T) {
	var asked []string
	carrier, host := carrierTo(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+r.Header.Get("Authorization"))
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	}, "/app", "%")
	ref, err := name.NewDigest(host + "/app@sha256:" + strings.Repeat("a", 64))
	if err != nil {
		t.Fatal(err)
	}
	_, err = remote.Get(ref, remote.WithTransport(carrier), remote.WithContext(t.Context()))
	if want := "the entry " + wire.Quote(host+"/app") + " of the global pull secret"; err == nil || !strings.HasPrefix(Reason(err), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if !slices.Equal(asked, []string{"/v2/"}) {
		t.Errorf("asked %q", asked)
	}
}

// TestStalled: a body may take any time as long as enough moves.
func TestStalled(t *testing.T) {
	for rate, ends := range map[int]bool{1: true, leastMoved / 128: true, leastMoved / 112: false} { // in bytes a second
		synctest.Test(t, func(t *testing.T) {
			w := watch(t.Context(), stalled)
			defer w.end()
			body := &watched{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", 3600*rate))), watch: w}
			for range 3600 {
				time.Sleep(time.Second)
				_, _ = body.Read(make([]byte, rate)) // there is as much
			}
			if w.idle() != ends {
				t.Errorf("%d bytes a second: idle %t", rate, !ends)
			}
		})
	}
}
