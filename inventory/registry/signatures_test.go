package registry

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// signedDigest is that of an image whose signatures are looked for.
var signedDigest = sumOf("an image")

func attachmentOf(t *testing.T) mirrors.Location {
	t.Helper()
	l, ok := mirrors.Location{Ref: host + "/app/web:1"}.Signatures(signedDigest)
	if !ok {
		t.Fatal("no tag for its signatures")
	}
	return l
}

// A layer is one of an attachment; its content is text.
type layer struct{ mediaType, text, annotations string }

func attachment(layers ...layer) string {
	var list []string
	for _, l := range layers {
		list = append(list, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"annotations":{%s}}`, l.mediaType, sumOf(l.text), len(l.text), l.annotations))
	}
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":2},"layers":[%s]}`,
		ociManifest, sumOf("{}"), strings.Join(list, ","))
}

// signedShop serves an attachment, and its layers.
func signedShop(mediaType, manifest string, layers ...string) http.HandlerFunc {
	s := newShop()
	s.add(strings.Replace(signedDigest, ":", "-", 1)+".sig", mediaType, manifest)
	s.hold(layers...)
	return s.serve
}

// refuse answers a status with the error of a registry.
func refuse(code int, err string) http.HandlerFunc {
	return status(code, fmt.Sprintf(`{"errors":[%s]}`, err))
}

const signatureType = signing.MediaType

// TestSignatures: what a node would make of what stands under the tag of signatures
// (docker_client.go, getSigstoreAttachmentManifest and getOCIDescriptorContents).
func TestSignatures(t *testing.T) {
	one := layer{signatureType, "payload", `"dev.cosignproject.cosign/signature":"c2ln","other":"x"`}
	many := make([]layer, maxLayers+1)
	big, mega := strings.Repeat("x", maxConfig+1), strings.Repeat("p", 1<<20)
	for _, tc := range []struct {
		name     string
		registry http.HandlerFunc
		want     policy.Presence
		detail   string
	}{
		{"a signature", signedShop(ociManifest, attachment(one), "payload"), policy.Present, ""},
		{"a signature and an attestation", signedShop(ociManifest, attachment(one, layer{"application/vnd.dsse.envelope.v1+json", "attestation", ""}), "payload", "attestation"), policy.Present, ""},
		{"nothing attached", signedShop(ociManifest, attachment()), policy.Present, ""},
		{"the registry says that there is none", refuse(404, `{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}`), policy.Absent, `it holds no signature, saying "manifest unknown"`},
		{"with another status", refuse(400, `{"code":"MANIFEST_UNKNOWN"}`), policy.Absent, "answers 400: it holds no signature"},
		{"without a word", status(404, ""), policy.Absent, "answers 404: it holds no signature"},
		{"as registry.redhat.io says it", refuse(404, `{"code":"UNKNOWN","message":"Not Found"}`), policy.Absent, "holds no signature"},
		{"as Harbor says it", refuse(404, `{"code":"NOT_FOUND","message":"artifact app/web:sha256-1.sig not found"}`), policy.Absent, "holds no signature"},
		{"with a page", status(404, "\n<html>"+mega), policy.Absent, "holds no signature"},
		{"with words without end", refuse(404, `{"code":"MANIFEST_UNKNOWN","message":"`+mega+`"}`), policy.Unreachable, "does not tell nodes that there is no signature"},
		{"in an old form", status(404, `{"details":"the tag was not found"}`), policy.Absent, "holds no signature"},
		{"the repository is not known", refuse(404, `{"code":"NAME_UNKNOWN","message":"repository name not known to registry"}`), policy.Unreachable, "does not tell nodes that there is no signature"},
		{"something is unknown", refuse(404, `{"code":"UNKNOWN","message":"who knows"}`), policy.Unreachable, "does not tell nodes that there is no signature"},
		{"forbidden", refuse(403, `{"code":"DENIED"}`), policy.Denied, "answers 403"},
		{"the registry is ill", status(500, ""), policy.Unreachable, "is failing"},
		{"the image itself", signedShop("application/vnd.docker.distribution.manifest.v2+json", imageOf("c", "l"), "c", "l"), policy.Mismatch, "unexpected MIME type"},
		{"an index", signedShop(ociIndex, indexOf()), policy.Mismatch, "unexpected MIME type"},
		{"an image of that type, whose layers are no signatures", signedShop(ociManifest, imageOf("c", "l"), "c", "l"), policy.Present, ""},
		{"a page", signedShop("text/html", "<html>"), policy.Mismatch, "unexpected MIME type"},
		{"no JSON", signedShop(ociManifest, "{"), policy.Mismatch, "cannot read"},
		{"a manifest of 5 MiB", signedShop(ociManifest, strings.Repeat(" ", wire.MaxManifest)+"{}"), policy.Mismatch, "more than 4 MiB"},
		{"its content is missing", signedShop(ociManifest, attachment(one)), policy.Incomplete, "lacks its content"},
		{"the content of an attestation is missing", signedShop(ociManifest, attachment(one, layer{"x/y", "attestation", ""}), "payload"), policy.Incomplete, "lacks its content"},
		{"a content of 5 MiB", signedShop(ociManifest, attachment(layer{signatureType, big, ""}), big), policy.Mismatch, "more than 4 MiB"},
		{"more layers than are read", signedShop(ociManifest, attachment(many...), ""), policy.Unreachable, "attachment of 33 layers"},
		{"certificates of a megabyte", signedShop(ociManifest, attachment(layer{signatureType, "payload", fmt.Sprintf("%q:%q", signing.ChainAnnotation, strings.Repeat("c", 1<<20))}), "payload"), policy.Unreachable, "not judged here"},
		{"payloads of a megabyte", signedShop(ociManifest, attachment(layer{signatureType, mega, ""}), mega), policy.Unreachable, "not judged here"},
		{"a layer whose digest is none", signedShop(ociManifest, strings.Replace(attachment(one), sumOf("payload"), "sha256:0", 1), "payload"), policy.Mismatch, "invalid digest"},
		{"a layer that is elsewhere", signedShop(ociManifest, strings.Replace(attachment(one), `"annotations"`, `"urls":["https://elsewhere.example.com/"],"annotations"`, 1), "payload"), policy.Unreachable, "is elsewhere"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newTLSServer(t, tc.registry)
			got := probe(t, newTestClient(t, s, withCredentials(credentials(t, map[string]string{host: "user:secret"}))), attachmentOf(t))
			wantFact(t, got, tc.want, tc.detail)
			if !got.AsNodes {
				t.Error("the credentials are those of the nodes")
			}
			if n := s.count(http.MethodHead, ""); n > 0 {
				t.Errorf("%d requests by HEAD, which nodes do not use", n)
			}
		})
	}
}

// TestSignaturesKept: what is kept of an attachment, at two requests for one of a layer.
func TestSignaturesKept(t *testing.T) {
	s := newTLSServer(t, signedShop(ociManifest, attachment(
		layer{signatureType, "payload", `"dev.cosignproject.cosign/signature":"c2ln","dev.sigstore.cosign/bundle":"{}","other":"x"`},
	), "payload"))
	got := probe(t, newTestClient(t, s), attachmentOf(t))
	want := []signing.Signature{{MediaType: signatureType, Payload: []byte("payload"), Annotations: map[string]string{signing.SignatureAnnotation: "c2ln", signing.SETAnnotation: "{}"}}}
	if diff := cmp.Diff(want, got.Signatures.All); diff != "" {
		t.Error(diff)
	}
	if !got.Signatures.Read.Equal(got.Time) {
		t.Errorf("read at %v, found at %v", got.Signatures.Read, got.Time)
	}
	if n := s.count(http.MethodGet, "/manifests/") + s.count(http.MethodGet, "/blobs/"); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// TestWrongContentOfSignatures: a layer is compared with its digest.
func TestWrongContentOfSignatures(t *testing.T) {
	shop := newShop()
	shop.add(strings.Replace(signedDigest, ":", "-", 1)+".sig", ociManifest, attachment(layer{signatureType, "payload", ""}))
	shop.blobs[sumOf("payload")] = "another payload"
	got := probe(t, newTestClient(t, newTLSServer(t, shop.serve)), attachmentOf(t))
	wantFact(t, got, policy.Mismatch, "other content under the digest")
}

// TestSignaturesBehindARedirect: nodes follow it.
func TestSignaturesBehindARedirect(t *testing.T) {
	there := signedShop(ociManifest, attachment(layer{signatureType, "payload", ""}), "payload")
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if _, path, ok := strings.Cut(r.URL.Path, "/app/web/"); ok && strings.HasPrefix(path, "manifests/") {
			http.Redirect(w, r, "/v2/elsewhere/"+path, http.StatusTemporaryRedirect)
			return
		}
		there(w, r)
	})
	wantFact(t, probe(t, newTestClient(t, s), attachmentOf(t)), policy.Present)
}

// TestReferrers: a signature that nodes do not know is told of, in either of its forms.
func TestReferrers(t *testing.T) {
	const bundle = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:x","size":1,"artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json"}]}`
	at := mirrors.Location{Ref: host + "/app/web:1"}.Referrers(signedDigest)
	serving := func(path, content string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if ping(w, r) {
				return
			}
			if !strings.HasSuffix(r.URL.Path, path) {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			serve(ociIndex, "", content)(w, r)
		}
	}
	for _, tc := range []struct {
		name     string
		registry http.HandlerFunc
		want     policy.Presence
		detail   string
	}{
		{"by the API", serving("/referrers/"+signedDigest, bundle), policy.Present, "a referrer of type application/vnd.dev.sigstore.bundle.v0.3+json"},
		{"by a tag", serving("/manifests/"+strings.Replace(signedDigest, ":", "-", 1), bundle), policy.Present, "a referrer of type"},
		{"an SBOM refers to it", serving("/referrers/"+signedDigest, strings.Replace(bundle, "dev.sigstore.bundle.v0.3", "cyclonedx", 1)), policy.Absent, "no signature"},
		{"nothing", serving("/nothing", ""), policy.Absent, ""},
		{"a page", serving("/referrers/"+signedDigest, "<html>"), policy.Unreachable, "something else"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantFact(t, probe(t, newTestClient(t, newTLSServer(t, tc.registry)), at), tc.want, tc.detail)
		})
	}
}

// TestInstances: the manifests that nodes would run, and for whose signatures they would look.
func TestInstances(t *testing.T) {
	amd, amdEntry := child("linux/amd64")
	_, armEntry := child("linux/arm64/v8")
	win, winEntry := child("windows/amd64")
	index := sparse(indexOf(amdEntry, armEntry, winEntry), amd, win)
	single := imageOf("c", "l")
	shop := newShop()
	shop.add("1", ociManifest, single)
	shop.hold("c", "l")
	long := digest.SHA512.FromString(single).String()
	shop.manifests[long], shop.types[long] = single, ociManifest
	byLong := mirrors.Location{Ref: host + "/app/web@" + long, Depth: mirrors.DepthManifest}
	for _, tc := range []struct {
		name     string
		nodes    []string
		registry http.HandlerFunc
		at       mirrors.Location
		want     []policy.Instance
	}{
		{"of an index, those that are there", []string{"linux/amd64", "linux/arm64"}, index, tagged(), []policy.Instance{{Platform: "linux/amd64", Digest: sumOf(amd)}}},
		{"Windows looks for no signatures", []string{"linux/amd64", "windows/amd64"}, index, tagged(), []policy.Instance{{Platform: "linux/amd64", Digest: sumOf(amd)}}},
		{"no node is known", nil, index, tagged(), []policy.Instance{{Platform: "linux/amd64", Digest: sumOf(amd)}}},
		{"of a single image that was read", []string{"linux/amd64"}, shop.serve, manifestOf(tagged()), []policy.Instance{{Digest: sumOf(single)}}},
		{"of one by another digest, the usual one", []string{"linux/amd64"}, shop.serve, byLong, []policy.Instance{{Digest: sumOf(single)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := probe(t, newTestClient(t, newTLSServer(t, tc.registry), reading(tc.nodes...)), tc.at)
			if diff := cmp.Diff(tc.want, got.Instances); diff != "" {
				t.Errorf("%s\n%+v", diff, got)
			}
		})
	}
}

func manifestOf(l mirrors.Location) mirrors.Location {
	l.Depth = mirrors.DepthManifest
	return l
}

// TestAsNodes: a fact says whether the registry was asked as nodes ask it.
func TestAsNodes(t *testing.T) {
	helped, err := pullsecret.Parse([]byte(`{"auths":{},"credHelpers":{"` + host + `":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	none, _ := pullsecret.Parse([]byte(`{"auths":{}}`))
	for _, tc := range []struct {
		name        string
		credentials pullsecret.Credentials
		want        bool
	}{
		{"it is not known what nodes have", pullsecret.Credentials{}, false},
		{"nodes have none", none, true},
		{"nodes have some for another registry", credentials(t, map[string]string{"other.example.com": "user:secret"}), true},
		{"nodes have these", credentials(t, map[string]string{host: "user:secret"}), true},
		{"nodes ask a helper", helped, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, registry := range []http.HandlerFunc{healthy, status(404, ""), status(403, "")} {
				got := probe(t, newTestClient(t, newTLSServer(t, registry), withCredentials(tc.credentials)), tagged())
				if got.AsNodes != tc.want {
					t.Errorf("%v, want %v: %+v", got.AsNodes, tc.want, got)
				}
			}
		})
	}
}

// TestDeniedParts: a child of an index that is denied is no reason for a node to ask the next
// place.
func TestDeniedParts(t *testing.T) {
	amd, amdEntry := child("linux/amd64")
	for _, code := range []int{401, 403, 500} {
		index := sparse(indexOf(amdEntry), amd)
		s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "sha256:") {
				w.WriteHeader(code)
				return
			}
			index(w, r)
		})
		got := probe(t, newTestClient(t, s, reading("linux/amd64")), tagged())
		wantFact(t, got, policy.Inconclusive, "the manifest is there, but", fmt.Sprint(code))
	}
}
