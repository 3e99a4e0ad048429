package registry

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/goroutines"
)

// TestRealRegistry asks go-containerregistry's in-process registry.
func TestRealRegistry(t *testing.T) {
	s := newTLSServer(t, ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))).ServeHTTP)
	put(t, s, "app/web", "1", manifestBody)
	c := newTestClient(t, s)
	store := newStore(c, presence.Options{})
	defer store.Close()
	absent := mirrors.Location{Ref: host + "/app/web:2"}
	facts := store.Presence(t.Context(), []mirrors.Location{tagged(), digested(), absent}, policy.Freshness{})
	for l, want := range map[mirrors.Location]policy.Presence{
		tagged(): policy.Present, digested(): policy.Present, absent: policy.Absent,
	} {
		wantFact(t, *facts.At(l), want)
	}
	put(t, s, "app/web", "2", manifestBody)
	wantFact(t, c.Probe(t.Context(), absent), policy.Present)
}

func put(t *testing.T, s *server, repository, tag string, manifest []byte) {
	t.Helper()
	req := httptest.NewRequest(http.MethodPut, fmt.Sprintf("/v2/%s/manifests/%s", repository, tag), bytes.NewReader(manifest))
	req.Header.Set("Content-Type", ociManifest)
	w := httptest.NewRecorder()
	s.Config.Handler.ServeHTTP(w, req)
	if w.Code != http.StatusCreated {
		t.Fatalf("putting %s:%s: %d", repository, tag, w.Code)
	}
}

// TestDeadRegistryBesideAHealthyOne: 2,000 images behind a registry that swallows
// packets are unreachable within the time of one connection, and the others' answers
// are there.
func TestDeadRegistryBesideAHealthyOne(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	s := newTLSServer(t, healthy)
	c := newTestClient(t, s, func(o *clientOptions) {
		o.Resolve["hole.example.com"] = hole.Addr().String()
		o.DialTimeout = 3 * time.Second
	})
	wantFact(t, probe(t, c, tagged()), policy.Present) // its connection is kept
	store := newStore(c, presence.Options{})
	defer store.Close()
	dead := locations(2000, "hole.example.com/a:%d")
	alive := locations(500, host+"/a:%d")
	start := time.Now()
	facts := store.Presence(t.Context(), append(dead, alive...), policy.Freshness{})
	took := time.Since(start)
	for _, l := range dead {
		wantFact(t, *facts.At(l), policy.Unreachable, "hole.example.com did not answer within 3s")
	}
	for _, l := range alive {
		wantFact(t, *facts.At(l), policy.Present)
	}
	if took > 30*time.Second { // 64 at a time they would take a minute and a half
		t.Errorf("took %v", took)
	}
}

func TestNothingIsLeft(t *testing.T) {
	s := newTLSServer(t, bearer(ownRealm, &tokenServer{}))
	before := runtime.NumGoroutine()
	c := newTestClient(t, s)
	store := newStore(c, presence.Options{})
	facts := store.Presence(t.Context(), locations(300, host+"/a%d:1"), policy.Freshness{})
	if len(facts) != 300 {
		t.Errorf("%d facts", len(facts))
	}
	store.Close()
	c.Close()
	s.CloseClientConnections()
	goroutines.Await(t, before)
}
