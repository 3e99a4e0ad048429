package registry

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/presence"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// shop is a registry of one repository, app/web, and of any other with the same
// content: manifests by tag and digest, and the blobs that it holds.
type shop struct {
	mu        sync.Mutex
	manifests map[string]string
	types     map[string]string
	blobs     map[string]string // by digest
}

func newShop() *shop {
	return &shop{manifests: map[string]string{}, types: map[string]string{}, blobs: map[string]string{}}
}

// add puts a manifest under a tag, and returns its digest.
func (s *shop) add(tag, mediaType, manifest string) string {
	sum := sumOf(manifest)
	for _, id := range []string{tag, sum} {
		s.manifests[id], s.types[id] = manifest, mediaType
	}
	return sum
}

// hold makes the shop hold blobs by the given names.
func (s *shop) hold(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.blobs[sumOf(name)] = name
	}
}

// lose makes the shop lose what it holds by a name.
func (s *shop) lose(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.blobs, sumOf(name))
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	if ping(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, path, isBlob := strings.Cut(r.URL.Path, "/blobs/")
	if isBlob {
		blob, held := s.blobs[path]
		if !held {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, blob)
		return
	}
	id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if s.manifests[id] == "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	serve(s.types[id], sumOf(s.manifests[id]), s.manifests[id])(w, r)
}

// imageOf returns a manifest with a config and layers by the given names. One that ends
// in "!" is to be had elsewhere.
func imageOf(config string, layers ...string) string {
	var list []string
	for _, l := range layers {
		urls := ""
		if strings.HasSuffix(l, "!") {
			urls = `,"urls":["https://elsewhere.example.com/layer"]`
		}
		list = append(list, fmt.Sprintf(`{"digest":%q,"size":1%s}`, sumOf(l), urls))
	}
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"digest":%q,"size":1},"layers":[%s]}`,
		ociManifest, sumOf(config), strings.Join(list, ","))
}

func deep(l mirrors.Location) mirrors.Location {
	l.Depth = mirrors.DepthBlobs
	return l
}

func TestBlobs(t *testing.T) {
	const schema1 = "application/vnd.docker.distribution.manifest.v1+json"
	many := make([]string, 600)
	for i := range many {
		many[i] = fmt.Sprint("layer ", i)
	}
	for _, tc := range []struct {
		reason    string
		mediaType string
		manifest  string
		holds     []string
		want      policy.Presence
		detail    string
		asked     int // blobs
	}{
		{"all are there", ociManifest, imageOf("c", "l1", "l2"), []string{"c", "l1", "l2"}, policy.Present, "", 3},
		{"a layer that occurs twice is asked for once", ociManifest, imageOf("c", "l1", "l1"), []string{"c", "l1"}, policy.Present, "", 2},
		{
			"a layer is missing", ociManifest, imageOf("c", "l1", "l2"),
			[]string{"c", "l1"},
			policy.Incomplete,
			"mirror.example.com serves the manifest and lacks 1 of the 3 blobs that it names (" + text.ShortDigest(digest.FromString("l2").String()) + "); nodes would stop there", 3,
		},
		{
			"the config is missing", ociManifest, imageOf("c", "l1"),
			[]string{"l1"},
			policy.Incomplete,
			"lacks 1 of the 2 blobs that it names (" + text.ShortDigest(digest.FromString("c").String()) + ")", 2,
		},
		{"all are missing", ociManifest, imageOf("c", "l1", "l2"), nil, policy.Incomplete, "lacks 3 of the 3 blobs that it names (sha256:", 3},
		{"a layer that nodes fetch elsewhere", ociManifest, imageOf("c", "l1!"), []string{"c"}, policy.Present, "", 1},
		{"schema 1 has no config", schema1, `{"schemaVersion":1,"fsLayers":[{"blobSum":"` + sumOf("l1") + `"}]}`, []string{"l1"}, policy.Present, "", 1},
		{"no config", ociManifest, string(manifestBody), nil, policy.Mismatch, "mirror.example.com serves a manifest that nodes cannot read; push the image again", 0},
		{"more layers than a node could mount", ociManifest, imageOf("c", many...), nil, policy.Inconclusive, "serves a manifest of 601 blobs, more than any node could use", 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			registry := newShop()
			registry.add("1", tc.mediaType, tc.manifest)
			registry.hold(tc.holds...)
			s := newTLSServer(t, registry.serve)
			wantFact(t, probe(t, newTestClient(t, s), deep(tagged())), tc.want, tc.detail)
			asked := map[string]bool{}
			for _, r := range s.requests() {
				if strings.Contains(r.path, "/blobs/") {
					asked[r.path] = true
				}
			}
			if len(asked) != tc.asked {
				t.Errorf("%d blobs asked for, want %d", len(asked), tc.asked)
			}
		})
	}
}

// TestBlobsAreNotAskedFor at a lesser depth.
func TestBlobsAreNotAskedFor(t *testing.T) {
	registry := newShop()
	registry.add("1", ociManifest, imageOf("c", "l"))
	s := newTLSServer(t, registry.serve)
	wantFact(t, probe(t, newTestClient(t, s), tagged()), policy.Present)
	if n := s.count("", "/blobs/"); n > 0 {
		t.Errorf("%d requests for blobs", n)
	}
}

// TestBlobsOfIndex: those of the parts for the architectures in use, and of no other.
func TestBlobsOfIndex(t *testing.T) {
	registry := newShop()
	part := func(architecture string) string {
		sum := registry.add("", ociManifest, imageOf("c "+architecture, "base", "l "+architecture))
		return fmt.Sprintf(`{"mediaType":%q,"size":1,"digest":%q,"platform":{"os":"linux","architecture":%q}}`, ociManifest, sum, architecture)
	}
	registry.add("1", ociIndex, indexOf(part("amd64"), part("arm64"), part("s390x")))
	registry.hold("base", "c amd64", "l amd64", "c arm64")
	s := newTLSServer(t, registry.serve)
	got := probe(t, newTestClient(t, s, reading("linux/amd64", "linux/arm64")), deep(tagged()))
	wantFact(t, got, policy.Present, "its part for linux/arm64 lacks 1 of the 3 blobs that it names ("+text.ShortDigest(digest.FromString("l arm64").String())+")")
	if !slices.Equal(got.Missing, []string{"linux/arm64"}) || !slices.Equal(got.Platforms, []string{"linux/amd64", "linux/s390x"}) {
		t.Errorf("missing %q of %q", got.Missing, got.Platforms)
	}
	if n := s.count("", sumOf("l s390x")); n > 0 {
		t.Errorf("a layer for an architecture without nodes was asked for")
	}
	if n := s.count("", sumOf("base")); n != 1 {
		t.Errorf("the layer that the parts have in common was asked for %d times", n)
	}
}

// TestBlobAnswers: what registries answer to requests for a blob, and what a node
// would make of it.
func TestBlobAnswers(t *testing.T) {
	for _, tc := range []struct {
		reason string
		answer http.HandlerFunc // for the layer
		want   policy.Presence
		detail string
	}{
		{"HEAD is not allowed", only(http.MethodGet, http.StatusMethodNotAllowed), policy.Present, ""},
		{"HEAD says no and GET says yes", only(http.MethodGet, http.StatusNotFound), policy.Present, ""},
		{"a storage elsewhere", redirectTo("https://cdn.example.com/layer"), policy.Present, ""},
		{"a storage that was asked for by an address signed for GET", redirectTo("https://cdn.example.com/signed"), policy.Present, ""},
		{"a storage that has lost it", redirectTo("https://cdn.example.com/lost"), policy.Incomplete, "lacks 1 of the 2 blobs"},
		{
			"a storage that is not for the guard", redirectTo("https://cdn.example.com/private"), policy.Inconclusive,
			"mirror.example.com redirects to cdn.example.com, which answers 403",
		},
		{"a storage without TLS", redirectTo("http://cdn.example.com/layer"), policy.Inconclusive, "redirects to plain http, which is not followed"},
		{"the metadata service", redirectTo("https://169.254.169.254/layer"), policy.Inconclusive, "is a link-local address, which is never asked"},
		{"denied", status(http.StatusForbidden, ""), policy.Inconclusive, "mirror.example.com answers 403 to the entry"},
		{"not well", status(http.StatusServiceUnavailable, ""), policy.Inconclusive, "mirror.example.com is failing: it answers 503"},
		{"odd", status(http.StatusTeapot, ""), policy.Inconclusive, "mirror.example.com answers 418"},
		{"empty", status(http.StatusRequestedRangeNotSatisfiable, ""), policy.Present, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			cdn := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/lost":
					w.WriteHeader(http.StatusNotFound)
				case r.URL.Path == "/private", r.URL.Path == "/signed" && r.Method == http.MethodHead:
					w.WriteHeader(http.StatusForbidden)
				default:
					fmt.Fprint(w, strings.Repeat("x", 1<<20))
				}
			})
			registry := newShop()
			registry.add("1", ociManifest, imageOf("c", "l"))
			registry.hold("c")
			s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("Authorization") != basic(canary):
					w.Header().Set("WWW-Authenticate", "Basic")
					w.WriteHeader(http.StatusUnauthorized)
				case strings.HasSuffix(r.URL.Path, sumOf("l")):
					tc.answer(w, r)
				default:
					registry.serve(w, r)
				}
			})
			c := newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: canary})), func(o *clientOptions) {
				o.Resolve["cdn.example.com"] = cdn.address()
			})
			wantFact(t, probe(t, c, deep(tagged())), tc.want, tc.detail)
			for _, r := range cdn.requests() {
				if r.authorization != "" {
					t.Errorf("%s carried %q", r.path, r.authorization)
				}
			}
		})
	}
}

func only(method string, other int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.WriteHeader(other)
		}
	}
}

func redirectTo(url string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusTemporaryRedirect) }
}

// TestSharedBlobsAreAskedForOnce, however many images have them, and once for each
// repository: what one holds another may not.
func TestSharedBlobsAreAskedForOnce(t *testing.T) {
	registry := newShop()
	registry.hold("base", "tools")
	var locs []mirrors.Location
	for i := range 60 {
		tag := fmt.Sprint("v", i)
		registry.add(tag, ociManifest, imageOf("c"+tag, "base", "tools", "l"+tag))
		registry.hold("c"+tag, "l"+tag)
		for _, repository := range []string{"app/web", "app/db"} {
			locs = append(locs, mirrors.Location{Ref: host + "/" + repository + ":" + tag, Depth: mirrors.DepthBlobs})
		}
	}
	s := newTLSServer(t, registry.serve)
	store := newStore(newTestClient(t, s), presence.Options{})
	defer store.Close()
	facts := store.Presence(t.Context(), locs, policy.Freshness{})
	for _, l := range locs {
		wantFact(t, *facts.At(l), policy.Present)
	}
	for _, name := range []string{"base", "tools"} {
		for _, repository := range []string{"app/web", "app/db"} {
			if n := s.count("", "/"+repository+"/blobs/"+sumOf(name)); n != 1 {
				t.Errorf("%s was asked for %d times in %s", name, n, repository)
			}
		}
	}
	if n := s.count("", "/blobs/"); n != 2*(2+2*60) {
		t.Errorf("%d requests for blobs", n)
	}
}

// TestMissingBlobIsAskedForAgain, and no other, once it was copied.
func TestMissingBlobIsAskedForAgain(t *testing.T) {
	registry := newShop()
	registry.add("1", ociManifest, imageOf("c", "l1", "l2"))
	registry.hold("c", "l1")
	s := newTLSServer(t, registry.serve)
	c := newTestClient(t, s)
	wantFact(t, probe(t, c, deep(tagged())), policy.Incomplete)
	registry.hold("l2")
	before := s.count("", "/blobs/")
	wantFact(t, probe(t, c, deep(tagged())), policy.Present)
	if n := s.count("", "/blobs/") - before; n != 1 {
		t.Errorf("%d requests for blobs, want 1", n)
	}
}

// TestManifestAloneIsNoAnswer: what the store knows of the manifest says nothing of the
// blobs, and neither takes the place of the other.
func TestManifestAloneIsNoAnswer(t *testing.T) {
	registry := newShop()
	sum := registry.add("1", ociManifest, imageOf("c", "l"))
	registry.hold("c", "l")
	s := newTLSServer(t, registry.serve)
	shallow := mirrors.Location{Ref: host + "/app/web@" + sum}
	store := newStore(newTestClient(t, s), presence.Options{})
	defer store.Close()
	want := []int{2, 3, 0, 0} // the ping and the manifest; that and two blobs
	for i, l := range []mirrors.Location{shallow, deep(shallow), shallow, deep(shallow)} {
		before := len(s.requests())
		wantFact(t, *store.Presence(t.Context(), []mirrors.Location{l}, policy.Freshness{}).At(l), policy.Present)
		if n := len(s.requests()) - before; n != want[i] {
			t.Errorf("question %d took %d requests, want %d", i, n, want[i])
		}
	}
}

// TestHostileManifest: more layers than a node can use, of which no request comes, and a manifest of nonsense.
func TestHostileManifest(t *testing.T) {
	var layers []string
	for i := range 2 * maxBlobs {
		layers = append(layers, fmt.Sprint("l", i))
	}
	for name, manifest := range map[string]string{
		"layers":      imageOf("c", layers...),
		"no digests":  `{"schemaVersion":2,"config":{"digest":"../../etc"},"layers":[{"digest":"x"}]}`,
		"odd types":   `{"schemaVersion":2,"config":[],"layers":{}}`,
		"md5":         `{"schemaVersion":2,"config":{"digest":"md5:d41d8cd98f00b204e9800998ecf8427e"}}`,
		"null layers": `{"schemaVersion":2,"config":null,"layers":null}`,
	} {
		registry := newShop()
		registry.add("1", ociManifest, manifest)
		s := newTLSServer(t, registry.serve)
		if got := probe(t, newTestClient(t, s), deep(tagged())); got.Presence == policy.Present {
			t.Errorf("%s: %v", name, got.Presence)
		}
		if n := s.count("", "/blobs/"); n > 0 {
			t.Errorf("%s: %d requests for blobs", name, n)
		}
	}
}

// TestBlobCacheIsBounded: what is remembered of blobs does not grow forever.
func TestBlobCacheIsBounded(t *testing.T) {
	var cache blobCache
	for i := range maxKnownBlobs + 1 {
		cache.insert(blobKey{digest: digest.FromString(fmt.Sprint(i))}, nil)
	}
	if n := len(cache.known); n != 1 {
		t.Errorf("%d blobs are remembered", n)
	}
}

// TestBlobsAreForgotten with the credentials by which they were found.
func TestBlobsAreForgotten(t *testing.T) {
	registry := newShop()
	registry.add("1", ociManifest, imageOf("c", "l"))
	registry.hold("c", "l")
	s := newTLSServer(t, registry.serve)
	c := newTestClient(t, s)
	for i, want := range []int{2, 2, 4} {
		if i == 2 {
			c.SetCredentials(credentials(t, map[string]string{"other.example.com": canary}))
		}
		wantFact(t, probe(t, c, deep(tagged())), policy.Present)
		if n := s.count("", "/blobs/"); n != want {
			t.Errorf("%d requests for blobs after probe %d, want %d", n, i+1, want)
		}
	}
}
