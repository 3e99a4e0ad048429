package registry

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// sparse serves an index of which it holds only some children.
func sparse(index string, held ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if ping(w, r) {
			return
		}
		identifier := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		body, mediaType := index, ociIndex
		if strings.HasPrefix(identifier, "sha256:") {
			body, mediaType = "", ociManifest
			for _, child := range held {
				if digest.FromString(child).String() == identifier {
					body = child
				}
			}
		}
		if body == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		serve(mediaType, digest.FromString(body).String(), body)(w, r)
	}
}

// child returns a manifest and its entry in an index, for "os/architecture/variant" or,
// if that is "", for nothing that it says.
func child(platform string) (body, entry string) {
	body = fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"annotations":{"a":%q}}`, ociManifest, platform)
	return body, entryOf(platform, body)
}

func entryOf(platform, body string) string {
	entry := fmt.Sprintf(`{"mediaType":%q,"size":%d,"digest":%q`, ociManifest, len(body), digest.FromString(body))
	if p := strings.Split(platform, "/"); platform != "" {
		entry += fmt.Sprintf(`,"platform":{"os":%q,"architecture":%q,"variant":%q}`, p[0], p[1], strings.Join(p[2:], ""))
	}
	return entry + "}"
}

// TestContents: what a Fact says about an index, and which children it takes to know.
// Nodes are those of containers/image's own choice (ChooseInstance).
func TestContents(t *testing.T) {
	type nodes = []string
	for _, tc := range []struct {
		reason string
		nodes  []string
		lists  string // platforms in order; those in parentheses are not held
		want   policy.Fact
		asked  int // children
	}{
		{
			reason: "what nodes need is held, and the rest is not looked up", nodes: nodes{"linux/amd64"},
			lists: "linux/amd64 (linux/arm64/v8) (windows/amd64)",
			want:  policy.Fact{Platforms: nodes{"linux/amd64", "linux/arm64/v8", "windows/amd64"}, Serves: nodes{"linux/amd64"}}, asked: 1,
		},
		{
			reason: "a child that nodes need is missing", nodes: nodes{"linux/amd64", "linux/arm64"},
			lists: "linux/amd64 (linux/arm64/v8) linux/s390x",
			want: policy.Fact{
				Platforms: nodes{"linux/amd64", "linux/s390x"},
				Missing:   nodes{"linux/arm64/v8"}, Serves: nodes{"linux/amd64"},
			}, asked: 2,
		},
		{
			reason: "nothing but the index was copied", nodes: nodes{"linux/amd64", "linux/arm64"}, lists: "(linux/amd64) (linux/arm64)",
			want: policy.Fact{Platforms: nodes{}, Missing: nodes{"linux/amd64", "linux/arm64"}, Serves: nodes{}}, asked: 2,
		},
		{
			reason: "a platform that the index does not list is not missing from the copy", nodes: nodes{"linux/amd64", "linux/ppc64le"},
			lists: "linux/amd64",
			want:  policy.Fact{Platforms: nodes{"linux/amd64"}, Serves: nodes{"linux/amd64"}, Lacks: nodes{"linux/ppc64le"}}, asked: 1,
		},
		{
			reason: "amd64 is not for nodes of amd64 that run Windows", nodes: nodes{"linux/amd64", "windows/amd64"}, lists: "linux/amd64",
			want: policy.Fact{Platforms: nodes{"linux/amd64"}, Serves: nodes{"linux/amd64"}, Lacks: nodes{"windows/amd64"}}, asked: 1,
		},
		{
			reason: "a variant of amd64 is never chosen, so that it is not missed", nodes: nodes{"linux/amd64"}, lists: "(linux/amd64/v3) linux/amd64",
			want: policy.Fact{Platforms: nodes{"linux/amd64/v3", "linux/amd64"}, Serves: nodes{"linux/amd64"}}, asked: 1,
		},
		{
			reason: "nor where there is no other", nodes: nodes{"linux/amd64"}, lists: "linux/amd64/v3",
			want: policy.Fact{Platforms: nodes{"linux/amd64/v3"}, Serves: nodes{}, Lacks: nodes{"linux/amd64"}}, asked: 0,
		},
		{
			reason: "arm64 nodes know that they are v8, and take it before one without", nodes: nodes{"linux/arm64"}, lists: "linux/arm64 (linux/arm64/v8)",
			want: policy.Fact{Platforms: nodes{"linux/arm64"}, Missing: nodes{"linux/arm64/v8"}, Serves: nodes{}}, asked: 1,
		},
		{
			reason: "the first of two for the same platform", nodes: nodes{"linux/amd64"}, lists: "(linux/amd64) linux/amd64/v2",
			want: policy.Fact{Platforms: nodes{"linux/amd64/v2"}, Missing: nodes{"linux/amd64"}, Serves: nodes{}}, asked: 1,
		},
		{
			reason: "a child without a platform is chosen where no other is, and is not held", nodes: nodes{"linux/amd64"}, lists: "linux/arm64 ()",
			want: policy.Fact{Platforms: nodes{"linux/arm64"}, Missing: nodes{"an unnamed platform"}, Serves: nodes{}}, asked: 1,
		},
		{
			reason: "and is left alone where another is", nodes: nodes{"linux/amd64"}, lists: "() linux/amd64",
			want: policy.Fact{Platforms: nodes{"linux/amd64"}, Serves: nodes{"linux/amd64"}}, asked: 1,
		},
		{
			reason: "on Windows any of several may be chosen, by its version", nodes: nodes{"windows/amd64"}, lists: "windows/amd64 (windows/amd64/2)",
			want: policy.Fact{Platforms: nodes{"windows/amd64"}, Missing: nodes{"windows/amd64/2"}, Serves: nodes{}}, asked: 2,
		},
		{
			reason: "no node is known: all for Linux", nodes: nodes{}, lists: "linux/amd64 (windows/amd64) (linux/arm64/v8) ()",
			want: policy.Fact{
				Platforms: nodes{"linux/amd64", "windows/amd64"}, Missing: nodes{"linux/arm64/v8"},
				Serves: nodes{"linux/amd64"}, Guessed: true,
			}, asked: 2,
		},
		{
			reason: "no node is known, and nothing is for Linux", nodes: nodes{}, lists: "windows/amd64",
			want: policy.Fact{Platforms: nodes{"windows/amd64"}, Serves: nodes{}, Guessed: true}, asked: 0,
		},
	} {
		for _, depth := range []mirrors.Depth{mirrors.DepthExists, mirrors.DepthManifest} {
			t.Run(tc.reason+" "+depth.String(), func(t *testing.T) {
				var entries, held []string
				tc := tc
				for _, p := range strings.Fields(tc.lists) {
					name := strings.Trim(p, "()")
					body, entry := child(name)
					if entries = append(entries, entry); name == p {
						held = append(held, body)
					}
					tc.want.Children = append(tc.want.Children, sumOf(body))
				}
				attestation := strings.ReplaceAll(entryOf("unknown/unknown", "x"), `,"variant":""`, "")
				index := indexOf(append(entries, attestation)...)
				s := newTLSServer(t, sparse(index, held...))
				l := tagged()
				l.Depth = depth
				got := probe(t, newTestClient(t, s, reading(tc.nodes...)), l)
				wantFact(t, got, policy.Present)
				tc.want.Presence, tc.want.Digest, tc.want.MediaType, tc.want.Time = policy.Present, sumOf(index), ociIndex, got.Time
				got.Instances, got.AsNodes = nil, false // see TestInstances and TestAsNodes
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
				asked := map[string]bool{}
				for _, r := range s.requests() {
					if strings.Contains(r.path, "sha256:") {
						asked[r.path] = true
					}
				}
				if len(asked) != tc.asked || s.count("", sumOf("x")) > 0 {
					t.Errorf("asked for %d children, want %d and no attestation", len(asked), tc.asked)
				}
				if heads := s.count(http.MethodHead, ""); heads > 0 {
					t.Errorf("%d HEAD requests", heads)
				}
			})
		}
	}
}

// TestIndexIsLeftUnread: where only its being there is wanted, and nothing is to be known
// about platforms, an index costs one request.
func TestIndexIsLeftUnread(t *testing.T) {
	_, entry := child("linux/amd64")
	s := newTLSServer(t, sparse(indexOf(entry)))
	got := probe(t, newTestClient(t, s), tagged())
	wantFact(t, got, policy.Present)
	if got.Serves != nil || s.count("", "/manifests/") != 1 {
		t.Errorf("%v after %d requests", got, s.count("", "/manifests/"))
	}
}

// TestIndexesThatNodesStopAt are there and of no use.
func TestIndexesThatNodesStopAt(t *testing.T) {
	inner, innerEntry := child("linux/amd64")
	nestedIndex := indexOf(innerEntry)
	many := make([]string, 0, maxLookedUp+1)
	for i := range maxLookedUp + 1 {
		many = append(many, entryOf(fmt.Sprint("linux/amd64/", i), "the same"))
	}
	for _, tc := range []struct {
		reason string
		index  string
		nodes  []string
		want   policy.Presence
		detail string
	}{
		{"no children", indexOf(), []string{"linux/amd64"}, policy.Mismatch, "mirror.example.com serves an index that lists no images; nodes would stop there"},
		{"no children, and no node is known", indexOf(), nil, policy.Mismatch, "lists no images"},
		{"nothing but an attestation", indexOf(entryOf("unknown/unknown", "x")), nil, policy.Mismatch, "lists no images"},
		{"no digest", `{"schemaVersion":2,"manifests":[{"digest":"no digest"}]}`, []string{"linux/amd64"}, policy.Mismatch, "serves an index that cannot be read; push the image again"},
		{"also an image (CVE-2021-41190)", `{"schemaVersion":2,"config":{},"manifests":[]}`, nil, policy.Mismatch, "serves an index that cannot be read"},
		{"more than are looked up: nobody can tell", indexOf(many...), nil, policy.Inconclusive, "an index of more than 64 images that nodes might choose"},
		{"as many, of which nodes choose none", indexOf(many...), []string{"linux/amd64"}, policy.Present, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newTLSServer(t, sparse(tc.index, inner, nestedIndex))
			wantFact(t, probe(t, newTestClient(t, s, reading(tc.nodes...)), tagged()), tc.want, tc.detail)
		})
	}
}

// TestChildIsAnIndex: nodes stop there, whether or not the registry holds it
// (containers/image copy/single.go: "Unexpectedly received a manifest list").
func TestChildIsAnIndex(t *testing.T) {
	_, innerEntry := child("linux/amd64")
	inner := indexOf(innerEntry)
	registry := newShop()
	registry.add("inner", ociIndex, inner)
	registry.add("1", ociIndex, indexOf(entryOf("linux/amd64", inner)))
	for _, l := range []mirrors.Location{tagged(), deep(tagged())} {
		got := probe(t, newTestClient(t, newTLSServer(t, registry.serve), reading("linux/amd64")), l)
		wantFact(t, got, policy.Present, "its part for linux/amd64 is itself an index, which nodes do not accept")
		if diff := cmp.Diff([]string{"linux/amd64"}, got.Missing); diff != "" {
			t.Error(diff)
		}
	}
	amd64, entry := child("linux/amd64")
	registry.manifests[registry.add("", ociManifest, amd64)], _ = child("linux/arm64")
	for want, entry := range map[string]string{"linux/amd64": entry, unnamed: entryOf("", amd64)} {
		registry.add("1", ociIndex, indexOf(entryOf("linux/mips", amd64), entry))
		if got := probe(t, newTestClient(t, newTLSServer(t, registry.serve), reading("linux/amd64")), tagged()); !slices.Equal(got.Missing, []string{want}) {
			t.Errorf("under the digest of its part there is another manifest, and it lacks %q, want %q", got.Missing, want)
		}
	}
}

// TestChildrenAreRemembered: what a node may run is among them, however many there are.
func TestChildrenAreRemembered(t *testing.T) {
	var entries []string
	for i := range 10 * maxPlatforms {
		_, entry := child(fmt.Sprint("linux/mips/", i))
		entries = append(entries, entry)
	}
	amd64, entry := child("linux/amd64")
	s := newTLSServer(t, sparse(indexOf(append(entries, entry)...), amd64))
	got := probe(t, newTestClient(t, s, reading("linux/amd64")), tagged())
	if len(got.Children) != maxPlatforms || len(got.Platforms) != maxPlatforms || !slices.Contains(got.Children, sumOf(amd64)) {
		t.Errorf("%d children, %d platforms, want %d, the one that nodes choose among them", len(got.Children), len(got.Platforms), maxPlatforms)
	}
	if diff := cmp.Diff([]string{"linux/amd64"}, got.Serves); diff != "" || s.count("", "sha256:") != 1 {
		t.Errorf("serves %s after %d questions about children", diff, s.count("", "sha256:"))
	}
}

// TestSingleImage: what a Fact says of an image without an index, by its config.
func TestSingleImage(t *testing.T) {
	const schema1 = "application/vnd.docker.distribution.manifest.v1+json"
	config := func(os, architecture string) string {
		return fmt.Sprintf(`{"os":%q,"architecture":%q,"variant":"v8"}`, os, architecture)
	}
	both := []string{"linux/amd64", "linux/arm64"}
	for _, tc := range []struct {
		reason        string
		nodes         []string
		config        string
		schema1       string // the manifest instead
		serves, lacks []string
		guessed       bool
	}{
		{reason: "what copying without --all makes", nodes: both, config: config("linux", "amd64"), serves: both[:1], lacks: both[1:]},
		{reason: "for the only platform", nodes: both[1:], config: config("linux", "arm64"), serves: both[1:]},
		{reason: "for another one", nodes: both[:1], config: config("linux", "arm64"), serves: []string{}, lacks: both[:1]},
		{reason: "for another system", nodes: both[:1], config: config("windows", "amd64"), serves: []string{}, lacks: both[:1]},
		{reason: "no node is known", config: config("linux", "amd64"), serves: both[:1], guessed: true},
		{reason: "the config does not say", nodes: both, config: "{}"},
		{reason: "the config is no JSON, as of other artifacts", nodes: both, config: "<html>"},
		{reason: "schema 1 says it itself", nodes: both, schema1: `{"schemaVersion":1,"architecture":"amd64","fsLayers":[]}`, serves: both[:1], lacks: both[1:]},
	} {
		for _, depth := range []mirrors.Depth{mirrors.DepthManifest, mirrors.DepthBlobs} {
			t.Run(tc.reason+" "+depth.String(), func(t *testing.T) {
				registry := newShop()
				registry.add("1", ociManifest, imageOf(tc.config))
				if tc.schema1 != "" {
					registry.add("1", schema1, tc.schema1)
				}
				registry.hold(tc.config)
				l := tagged()
				l.Depth = depth
				got := probe(t, newTestClient(t, newTLSServer(t, registry.serve), reading(tc.nodes...)), l)
				wantFact(t, got, policy.Present)
				want := policy.Fact{Serves: tc.serves, Lacks: tc.lacks, Guessed: tc.guessed}
				if diff := cmp.Diff(want, policy.Fact{Serves: got.Serves, Lacks: got.Lacks, Guessed: got.Guessed}); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestConfigs: a config is read once, and asked for at each place. Without it, nodes stop.
func TestConfigs(t *testing.T) {
	const config = `{"os":"linux","architecture":"amd64"}`
	registry := newShop()
	registry.add("1", ociManifest, imageOf(config, "layer"))
	registry.hold(config)
	s := newTLSServer(t, registry.serve)
	c := newTestClient(t, s, reading("linux/amd64"))
	at := func(repository string) mirrors.Location {
		return mirrors.Location{Ref: host + "/" + repository + ":1", Depth: mirrors.DepthManifest}
	}
	wantFact(t, probe(t, c, at("a")), policy.Present)
	wantFact(t, probe(t, c, at("a")), policy.Present)
	if reads := s.count(http.MethodGet, "/blobs/"); reads != 1 {
		t.Errorf("one place, twice: asked for %d times, want 1", reads)
	}
	wantFact(t, probe(t, c, at("b")), policy.Present)
	if reads := s.count(http.MethodGet, "/blobs/"); reads != 2 {
		t.Errorf("another place: asked for %d times, want 2", reads)
	}
	registry.lose(config)
	wantFact(t, probe(t, c, at("c")), policy.Incomplete,
		"mirror.example.com serves the manifest and lacks its config ("+text.ShortDigest(digest.FromString(config).String())+"); nodes would stop there")
	other := newTestClient(t, s, reading("linux/amd64")) // which has not read it
	wantFact(t, probe(t, other, at("c")), policy.Incomplete, "lacks its config")
}

// TestBadConfigs are what a registry might serve in place of one.
func TestBadConfigs(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		handler http.HandlerFunc
		want    policy.Presence
		detail  string
	}{
		{"other content", serve("text/html", "", "<html>"), policy.Mismatch, "mirror.example.com serves other content under the digest of the config"},
		{"no end", endless, policy.Inconclusive, "the manifest is there, but mirror.example.com serves a config of more than 4 MiB, which nodes do not take"},
		{"denied", status(403, ""), policy.Inconclusive, "the manifest is there, but mirror.example.com answers 403"},
		{"not well", status(503, ""), policy.Inconclusive, "the manifest is there, but mirror.example.com is failing: it answers 503"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			registry := newShop()
			registry.add("1", ociManifest, imageOf("config"))
			s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/blobs/") {
					tc.handler(w, r)
					return
				}
				registry.serve(w, r)
			})
			l := tagged()
			l.Depth = mirrors.DepthManifest
			wantFact(t, probe(t, newTestClient(t, s, reading("linux/amd64")), l), tc.want, tc.detail)
		})
	}
}

// TestChildWithoutAPlatform: its config says whom it is for.
func TestChildWithoutAPlatform(t *testing.T) {
	const config = `{"os":"linux","architecture":"amd64"}`
	registry := newShop()
	registry.add("x", ociManifest, imageOf(config))
	registry.add("1", ociIndex, indexOf(entryOf("", imageOf(config))))
	registry.hold(config)
	s := newTLSServer(t, registry.serve)
	got := probe(t, newTestClient(t, s, reading("linux/amd64", "linux/arm64")), tagged())
	wantFact(t, got, policy.Present)
	if diff := cmp.Diff([][]string{{"linux/amd64"}, {"linux/arm64"}, nil}, [][]string{got.Serves, got.Lacks, got.Missing}); diff != "" {
		t.Error(diff)
	}
	got = probe(t, newTestClient(t, s, reading()), tagged())
	if diff := cmp.Diff([]string{"linux/amd64"}, got.Serves); diff != "" || !got.Guessed {
		t.Errorf("no node is known: %s", diff)
	}
}

// TestChildThatCannotBeLookedUp: no answer about a child is no answer about the
// image, and never "missing".
func TestChildThatCannotBeLookedUp(t *testing.T) {
	_, entry := child("linux/amd64")
	holds := sparse(indexOf(entry))
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "sha256:") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		holds(w, r)
	})
	got := probe(t, newTestClient(t, s, reading("linux/amd64")), tagged())
	wantFact(t, got, policy.Inconclusive, "the manifest is there, but", "answers 403")
	if got.Missing != nil {
		t.Errorf("missing %q", got.Missing)
	}
}

// reading makes a client know the platforms of nodes, and so read indexes.
func reading(platforms ...string) func(*clientOptions) {
	return func(o *clientOptions) { o.platforms = func() []string { return platforms } }
}

func indexOf(entries ...string) string {
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, ociIndex, strings.Join(entries, ","))
}

func sumOf(content string) string { return digest.FromString(content).String() }

// TestSignedSchema1: the digest of such a manifest is that of its payload.
func TestSignedSchema1(t *testing.T) {
	payload := "{\n   \"schemaVersion\": 1,\n   \"name\": \"a\"\n}"
	// {"formatLength":41,"formatTail":"Cn0"}: the payload without its last line.
	length := len(payload) - 2
	signed := payload[:length] + `,
   "signatures": [{"protected": "` + base64URL(fmt.Sprintf(`{"formatLength":%d,"formatTail":"Cn0"}`, length)) + `"}]
}`
	want := digest.FromString(payload)
	s := newTLSServer(t, serve("application/vnd.docker.distribution.manifest.v1+prettyjws", "", signed))
	l := tagged()
	l.Ref = host + "/app/web@" + want.String()
	wantFact(t, probe(t, newTestClient(t, s), l), policy.Present)
	s = newTLSServer(t, serve("application/json", "", signed))
	wantFact(t, probe(t, newTestClient(t, s), l), policy.Present)
	for _, bad := range []string{
		`{"schemaVersion":1,"signatures":[{"protected":"%"}]}`,
		`{"schemaVersion":1,"signatures":[{"protected":"` + base64URL(`{"formatLength":-1}`) + `"}]}`,
		`{"schemaVersion":1,"signatures":[{"protected":"` + base64URL(`{"formatLength":99999}`) + `"}]}`,
	} {
		if got := sum(digest.Canonical, []byte(bad)); got != digest.FromString(bad) {
			t.Errorf("%s has a payload", bad)
		}
	}
}
