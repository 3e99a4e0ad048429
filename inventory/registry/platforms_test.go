package registry

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
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

func child(architecture, variant string) (body, descriptor string) {
	body = fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"annotations":{"a":%q}}`, ociManifest, architecture+variant)
	return body, fmt.Sprintf(`{"mediaType":%q,"size":%d,"digest":%q,"platform":{"os":"linux","architecture":%q,"variant":%q}}`,
		ociManifest, len(body), digest.FromString(body), architecture, variant)
}

// TestContents: what a Fact says about an index, and what it costs to know.
func TestContents(t *testing.T) {
	amd64, amd64Entry := child("amd64", "")
	arm64, arm64Entry := child("arm64", "v8")
	s390x, s390xEntry := child("s390x", "")
	children := []string{sumOf(amd64), sumOf(arm64), sumOf(s390x)}
	attestation := fmt.Sprintf(`{"mediaType":%q,"size":1,"digest":%q,"platform":{"os":"unknown","architecture":"unknown"}}`,
		ociManifest, digest.FromString("x"))
	nameless := fmt.Sprintf(`{"mediaType":%q,"size":1,"digest":%q}`, ociManifest, digest.FromString("y"))
	index := indexOf(amd64Entry, attestation, arm64Entry, nameless, s390xEntry)
	all := []string{"linux/amd64", "linux/arm64/v8", "linux/s390x"}
	for _, tc := range []struct {
		reason        string
		held          []string
		adjust        func(*Options)
		platforms     []string
		missing       []string
		children      []string
		childRequests bool
	}{
		{reason: "not asked for", held: []string{amd64}, adjust: func(*Options) {}},
		{
			reason: "listed only: nothing is known to be missing", held: nil, adjust: reading(),
			platforms: all, children: children,
		},
		{
			reason: "sparse, and what nodes need is held", held: []string{amd64}, adjust: reading("amd64"),
			platforms: all, children: children, childRequests: true,
		},
		{
			reason: "sparse, and a child that nodes need is missing", held: []string{amd64}, adjust: reading("amd64", "arm64"),
			platforms: []string{"linux/amd64", "linux/s390x"}, missing: []string{"linux/arm64/v8"}, children: children, childRequests: true,
		},
		{
			reason: "nothing but the index was copied", held: nil, adjust: reading("amd64", "arm64", "s390x"),
			platforms: []string{}, missing: all, children: children, childRequests: true,
		},
		{
			reason: "complete", held: []string{amd64, arm64, s390x}, adjust: reading("amd64", "arm64", "s390x"),
			platforms: all, children: children, childRequests: true,
		},
		{
			reason: "an architecture that the index does not list is not missing from the copy", held: []string{amd64},
			adjust: reading("amd64", "ppc64le"), platforms: all, children: children, childRequests: true,
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newTLSServer(t, sparse(index, tc.held...))
			got := probe(t, newTestClient(t, s, tc.adjust), tagged())
			wantFact(t, got, policy.Present)
			want := policy.Fact{
				Presence: policy.Present, Digest: sumOf(index), MediaType: ociIndex,
				Platforms: tc.platforms, Missing: tc.missing, Children: tc.children, Time: got.Time,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if asked := s.count(http.MethodHead, "sha256:") > 0; asked != tc.childRequests {
				t.Errorf("children asked for: %v, want %v", asked, tc.childRequests)
			}
			for _, left := range []string{"x", "y"} {
				if s.count("", sumOf(left)) > 0 {
					t.Errorf("an attestation was asked for")
				}
			}
		})
	}
}

// TestContentsOfASingleImage: nothing is listed, so nothing can be missing.
func TestContentsOfASingleImage(t *testing.T) {
	c := newTestClient(t, newTLSServer(t, healthy), reading("amd64", "arm64"))
	got := probe(t, c, digested())
	wantFact(t, got, policy.Present)
	if got.Platforms != nil || got.Missing != nil || got.Children != nil {
		t.Errorf("platforms %q, missing %q, children %q, want none", got.Platforms, got.Missing, got.Children)
	}
}

// TestContentsAreBounded: an index can list any number of manifests.
func TestContentsAreBounded(t *testing.T) {
	entries := make([]string, 10*maxPlatforms)
	for i := range entries {
		_, entries[i] = child("amd64", fmt.Sprint(i))
	}
	s := newTLSServer(t, sparse(indexOf(entries...)))
	got := probe(t, newTestClient(t, s, reading("amd64")), tagged())
	if len(got.Children) != maxPlatforms || len(got.Missing) != maxPlatforms || s.count(http.MethodHead, "sha256:") != maxPlatforms {
		t.Errorf("%d children, %d missing after %d questions, want %d each",
			len(got.Children), len(got.Missing), s.count(http.MethodHead, "sha256:"), maxPlatforms)
	}
}

// TestChildThatCannotBeLookedUp: no answer about a child is no answer about the
// image, and never "missing".
func TestChildThatCannotBeLookedUp(t *testing.T) {
	_, entry := child("amd64", "")
	holds := sparse(indexOf(entry))
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "sha256:") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		holds(w, r)
	})
	got := probe(t, newTestClient(t, s, reading("amd64")), tagged())
	wantFact(t, got, policy.Denied, "answers 403")
	if got.Missing != nil {
		t.Errorf("missing %q", got.Missing)
	}
}

// reading makes a client read indexes, and look up the children for architectures.
func reading(architectures ...string) func(*Options) {
	return func(o *Options) {
		o.Platforms = true
		o.Architectures = func() []string { return architectures }
	}
}

func indexOf(entries ...string) string {
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, ociIndex, strings.Join(entries, ","))
}

func sumOf(content string) string { return digest.FromString(content).String() }

func TestIndexThatCannotBeRead(t *testing.T) {
	s := newTLSServer(t, sparse(`{"schemaVersion":2,"manifests":[{"digest":"no digest"}]}`))
	c := newTestClient(t, s, func(o *Options) { o.Platforms = true })
	wantFact(t, probe(t, c, tagged()), policy.Mismatch, "mirror.example.com serves an index that cannot be read; push the image again")
}

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
		if _, ok := signedPayload([]byte(bad)); ok {
			t.Errorf("%s has a payload", bad)
		}
	}
}
