package recent

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestFollowsOn: the Lease is followed from where a watch was, be it that it ended or that the connection
// was cut before it began; all is listed again only where the API server does not know how it went on.
func TestFollowsOn(t *testing.T) {
	const lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"mirrorset-guard-recent","uid":"u","resourceVersion":"%d"}}`
	version := 1
	lists, watches := 0, []string(nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			lists++
			_, _ = fmt.Fprintf(w, `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, fmt.Sprintf(lease, version))
			return
		}
		watches = append(watches, r.URL.Query().Get("resourceVersion"))
		switch len(watches) {
		case 1, 3: // it is cut
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0) // a reset: client-go takes others for a watch that ends
				conn.Close()
			}
		case 2, 4: // it ends
			version++
			_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`, fmt.Sprintf(lease, version))
		case 5: // it is too long ago
			version += 10
			_, _ = fmt.Fprint(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	if err := NewLease(client.CoordinationV1(), client.CoordinationV1(), "n", "a", nil).follow(ctx, func(c content) { seen = append(seen, c.version) }); err == nil {
		t.Error("it goes on from where nobody knows what came between")
	}
	if want := []string{"1", "2", "3"}; !slices.Equal(seen, want) || lists != 1 {
		t.Errorf("seen %q in %d lists, want %q", seen, lists, want)
	}
	if want := []string{"1", "1", "2", "2", "3"}; !slices.Equal(watches, want) {
		t.Errorf("watched from %q, want %q", watches, want)
	}
}

// TestAddsToWhatItSaw: an update names the very object and version that was looked at, without which an
// API server would take it for any, and make one where there is none.
func TestAddsToWhatItSaw(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var lease coordinationv1.Lease
		if err := json.NewDecoder(r.Body).Decode(&lease); err != nil || r.Method != http.MethodPut || lease.UID != "u" || lease.ResourceVersion != "7" {
			t.Errorf("%s of uid %q, version %q: %v", r.Method, lease.UID, lease.ResourceVersion, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&lease)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewLease(client.CoordinationV1(), client.CoordinationV1(), "n", "a", nil).write(t.Context(), content{uid: "u", version: "7"}, nil); err != nil {
		t.Error(err)
	}
}
