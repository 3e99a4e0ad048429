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

func TestPlatforms(t *testing.T) {
	amd64, amd64Entry := child("amd64", "")
	_, arm64Entry := child("arm64", "v8")
	_, s390xEntry := child("s390x", "")
	attestation := fmt.Sprintf(`{"mediaType":%q,"size":1,"digest":%q,"platform":{"os":"unknown","architecture":"unknown"}}`,
		ociManifest, digest.FromString("x"))
	index := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, ociIndex,
		strings.Join([]string{amd64Entry, arm64Entry, s390xEntry, attestation}, ","))
	s := newTLSServer(t, sparse(index, amd64))
	for _, tc := range []struct {
		reason        string
		adjust        func(*Options)
		want          []string
		childRequests bool
	}{
		{"not asked for", func(*Options) {}, nil, false},
		{"listed", func(o *Options) { o.Platforms = true }, []string{"linux/amd64", "linux/arm64/v8", "linux/s390x"}, false},
		{"the children that nodes need are held", func(o *Options) {
			o.Platforms = true
			o.Architectures = func() []string { return []string{"amd64"} }
		}, []string{"linux/amd64", "linux/arm64/v8", "linux/s390x"}, true},
		{"a child that nodes need is missing", func(o *Options) {
			o.Platforms = true
			o.Architectures = func() []string { return []string{"amd64", "arm64"} }
		}, []string{"linux/amd64", "linux/s390x"}, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			before := s.count(http.MethodHead, "sha256:")
			got := probe(t, newTestClient(t, s, tc.adjust), tagged())
			wantFact(t, got, policy.Present)
			if diff := cmp.Diff(tc.want, got.Platforms); diff != "" {
				t.Error(diff)
			}
			if got.MediaType != ociIndex || got.Digest != digest.FromString(index).String() {
				t.Errorf("type %q, digest %q", got.MediaType, got.Digest)
			}
			if asked := s.count(http.MethodHead, "sha256:") > before; asked != tc.childRequests {
				t.Errorf("children asked for: %v, want %v", asked, tc.childRequests)
			}
		})
	}
}

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
