package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// TestReadsAgain: the configuration in force is read although connections end before there is an answer,
// or in the middle of one, and where the API server asks for a delay. What it answers otherwise is not
// asked for again.
func TestReadsAgain(t *testing.T) {
	const set = `{"metadata":{"name":"a"},"spec":{"imageTagMirrors":[{"source":"quay.io/a","mirrors":["mirror.example.com/a"]}]}}`
	hangUp := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	for _, tt := range []struct {
		what  string
		times int
		do    func(http.ResponseWriter)
		asked int
		fails func(error) bool
	}{
		{"before the answer", 5, hangUp, 6, nil},
		{"in the middle of it", 5, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = fmt.Fprint(w, `{"items":[`)
			_ = http.NewResponseController(w).Flush()
			hangUp(w)
		}, 6, nil},
		{"too many requests", 1, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}, 2, nil},
		{"no JSON", 1, func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, "a page") }, 1, func(err error) bool { return strings.Contains(err.Error(), "invalid character") }},
		{"a refusal", 1, func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, 1, apierrors.IsForbidden},
	} {
		t.Run(tt.what, func(t *testing.T) {
			var mu sync.Mutex
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path != "/apis/config.openshift.io/v1/imagetagmirrorsets" {
					w.WriteHeader(http.StatusNotFound)
					_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if asked++; asked <= tt.times {
					tt.do(w)
					return
				}
				_, _ = fmt.Fprintf(w, `{"items":[%s]}`, set)
			}))
			defer server.Close()
			c, err := New(&rest.Config{Host: server.URL}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Mirrors(t.Context())
			mu.Lock()
			defer mu.Unlock()
			switch {
			case asked != tt.asked:
				t.Errorf("asked %d times, want %d: %v", asked, tt.asked, err)
			case tt.fails == nil && (err != nil || len(got.Objects) != 1):
				t.Errorf("read %d objects: %v", len(got.Objects), err)
			case tt.fails != nil && (err == nil || !tt.fails(err) || !strings.Contains(err.Error(), "/imagetagmirrorsets")):
				t.Errorf("not as answered: %v", err)
			}
		})
	}
}
