package inspect

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	imagename "github.com/google/go-containerregistry/pkg/name"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// releaseWorlds is how many parts of a release are taken away, one at a time.
var releaseWorlds = flag.Int("release-worlds", 8, "how many parts of a release TestReleaseLacksOne takes away")

const (
	releaseSource = "quay.io/openshift-release-dev/ocp-release"
	payloadSource = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
	newVersion    = "4.21.3"
)

// A releaseStage is a mirror with a release, behind a proxy that hides parts of it and writes down what it is asked,
// and a cluster that may be updated to it.
type releaseStage struct {
	mirror  string // host
	digest  string // of the release image
	signed  []byte // its GPG signature
	key     string // armored
	payload int    // images
	// releases and images are the repositories of the release image and of the payload where they are at home.
	releases, images string
	// parts are what can be taken away: the end of the path of requests for it, by what it belongs to.
	parts []releasePart

	mu   sync.Mutex
	gone map[string]bool
	// altered replaces a text in what is served under a path.
	altered map[string][2]string
	asked   []string
}

// A releasePart is a part of the image name.
type releasePart struct{ what, name, path string }

// newReleaseStage puts a release of n images on a registry.
func newReleaseStage(t testing.TB, n int) *releaseStage {
	t.Helper()
	s := newStage(t)
	s.releases, s.images = releaseSource, payloadSource
	s.push(t, n)
	return s
}

// newReleaseHome puts a release of n images on a registry that is no mirror, but where they are at home.
func newReleaseHome(t testing.TB, n int) *releaseStage {
	t.Helper()
	s := newStage(t)
	s.releases, s.images = s.mirror+"/openshift/release-images", s.mirror+"/openshift/release"
	s.push(t, n)
	return s
}

func newStage(t testing.TB) *releaseStage {
	t.Helper()
	testregistries.Need(t)
	process, err := testregistries.StartProcess(t.TempDir(), "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &releaseStage{gone: map[string]bool{}, altered: map[string][2]string{}}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: process.Addr})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		hidden := false
		for path := range s.gone {
			hidden = hidden || strings.HasSuffix(r.URL.Path, path)
		}
		altered, is := s.altered[r.URL.Path]
		s.mu.Unlock()
		if is && r.Method == http.MethodGet {
			answer := httptest.NewRecorder()
			proxy.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			fmt.Fprint(w, strings.ReplaceAll(answer.Body.String(), altered[0], altered[1]))
			return
		}
		if !hidden {
			proxy.ServeHTTP(w, r)
			return
		}
		code := "MANIFEST_UNKNOWN"
		if strings.Contains(r.URL.Path, "/blobs/") {
			code = "BLOB_UNKNOWN"
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"unknown"}]}`, code)
	}))
	t.Cleanup(server.Close)
	s.mirror = strings.TrimPrefix(server.URL, "http://")
	return s
}

// push makes the images of the payload, then the release image, all signed.
func (s *releaseStage) push(t testing.TB, n int) {
	t.Helper()
	s.payload = n
	stream := map[string]any{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": map[string]string{"name": newVersion}}
	var tags []any
	manifests := map[string]string{}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		name := releaseImageName(i)
		digest := s.pushImage(t, &group, i, name)
		ref := s.images + "@" + digest
		tags = append(tags, map[string]any{"name": name, "from": map[string]string{"kind": "DockerImage", "name": ref}})
		if i%3 == 0 {
			manifests[fmt.Sprintf("release-manifests/0000_%02d_%s.yaml", 10+i%80, name)] = "apiVersion: apps/v1\nkind: Deployment\nspec: {image: \"" + ref + "\"}\n"
		}
	}
	stream["spec"] = map[string]any{"tags": tags}
	references, err := json.Marshal(stream)
	if err != nil {
		t.Fatal(err)
	}
	manifests["release-manifests/image-references"] = string(references)
	manifests["release-manifests/release-metadata"] = `{"kind":"cincinnati-metadata-v0","version":"` + newVersion + `","previous":["4.20.9"]}`
	manifests["release-manifests/0000_10_clusterimagepolicy.yaml"] = s.newPolicy()
	image := releaseImage(t, archive(t, manifests))
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.digest = hash.String()
	s.write(t, "openshift/release-images", image)
	s.sign(t, "openshift/release-images", s.releases, s.digest)
	s.note(t, "release", "openshift/release-images", image)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	s.signGPG(t)
}

// newPolicy is the image policy that the release brings, as 4.21 does.
func (s *releaseStage) newPolicy() string {
	return `apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata: {name: openshift, annotations: {release.openshift.io/feature-set: Default}}
spec:
  scopes: ["` + s.releases + `", "` + s.images + `"]
  policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: ` + base64.StdEncoding.EncodeToString(signer.Key("release").PEM()) + `}}}
`
}

func releaseImageName(i int) string {
	switch i {
	case 0:
		return "cluster-version-operator"
	case 1:
		return "rhel-coreos"
	case 2:
		return "rhel-coreos-extensions"
	default:
		return fmt.Sprintf("component-%03d", i)
	}
}

// pushImage pushes an image of the payload, every fourth an index, and returns its digest.
func (s *releaseStage) pushImage(t testing.TB, group *errgroup.Group, i int, name string) string {
	t.Helper()
	if i%4 != 3 {
		image, err := testregistries.Image(name)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		s.note(t, name, "openshift/release", image)
		group.Go(func() error { return s.pushSigned(image, hash.String()) })
		return hash.String()
	}
	index, err := testregistries.Index(name)
	if err != nil {
		t.Fatal(err)
	}
	index = mutate.IndexMediaType(index, types.DockerManifestList) // old versions of skopeo convert what is mixed
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	child, err := index.Image(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	s.parts = append(s.parts, releasePart{"image", name, "/manifests/" + hash.String()})
	s.note(t, name, "openshift/release", child)
	s.parts[len(s.parts)-3].what = "child"
	group.Go(func() error {
		if err := remote.WriteIndex(s.reference("openshift/release@"+hash.String()), index); err != nil {
			return err
		}
		return s.attach("openshift/release", s.images, list.Manifests[0].Digest.String())
	})
	return hash.String()
}

func (s *releaseStage) pushSigned(image v1.Image, digest string) error {
	if err := remote.Write(s.reference("openshift/release@"+digest), image); err != nil {
		return err
	}
	return s.attach("openshift/release", s.images, digest)
}

// note notes the parts of an image: its manifest, a layer, and its signature.
func (s *releaseStage) note(t testing.TB, name, repository string, image v1.Image) {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := layers[len(layers)-1].Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.parts = append(s.parts,
		releasePart{"image", name, repository + "/manifests/" + hash.String()},
		releasePart{"layer", name, repository + "/blobs/" + layer.String()},
		releasePart{"signature", name, repository + "/manifests/" + signer.Tag(hash.String())})
}

func (s *releaseStage) reference(path string) imagename.Reference {
	ref, err := imagename.ParseReference(s.mirror+"/"+path, imagename.Insecure)
	if err != nil {
		panic(err) // the test's own
	}
	return ref
}

func (s *releaseStage) write(t testing.TB, repository string, image v1.Image) {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(s.reference(repository+"@"+hash.String()), image); err != nil {
		t.Fatal(err)
	}
}

func (s *releaseStage) sign(t testing.TB, repository, source, digest string) {
	t.Helper()
	if err := s.attach(repository, source, digest); err != nil {
		t.Fatal(err)
	}
}

// copyRelease mirrors the release image under a tag elsewhere, with its signature.
func (s *releaseStage) copyRelease(tag string) error {
	image, err := remote.Image(s.reference("openshift/release-images@" + s.digest))
	if err != nil {
		return err
	}
	path := strings.TrimPrefix(tag, s.mirror+"/")
	if err := remote.Write(s.reference(path), image); err != nil {
		return err
	}
	repository, _, _ := strings.Cut(path, ":")
	return s.attach(repository, s.mirror+"/"+repository, s.digest)
}

func (s *releaseStage) attach(repository, source, digest string) error {
	image, err := testregistries.NewAttached(signer.Attach(signer.Key("release").Sign(source+"@"+digest, digest)))
	if err != nil {
		return err
	}
	return remote.Write(s.reference(repository+":"+signer.Tag(digest)), image)
}

// signGPG signs the release image as Red Hat does, with a key made for the test.
func (s *releaseStage) signGPG(t testing.TB) {
	t.Helper()
	entity, err := openpgp.NewEntity("Test release key", "", "release@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var key, signed bytes.Buffer
	armored, err := armor.Encode(&key, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := entity.Serialize(armored); err != nil {
		t.Fatal(err)
	}
	armored.Close()
	w, err := openpgp.Sign(&signed, entity, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(w, `{"critical":{"image":{"docker-manifest-digest":%q},"type":"atomic container signature","identity":{"docker-reference":%q}},"optional":{}}`, s.digest, s.releases+":"+newVersion)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.key, s.signed = key.String(), signed.Bytes()
}

// archive packs files into a layer.
func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func releaseImage(t testing.TB, layer []byte) v1.Image {
	t.Helper()
	base, err := testregistries.Image("cluster-version-operator base")
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(base, static.NewLayer(layer, types.DockerUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// objects are those of a cluster that is offered the release.
func (s *releaseStage) objects(signature []byte) string {
	entry := ""
	if signature != nil {
		entry = fmt.Sprintf("binaryData: {%s-1: %s}", strings.ReplaceAll(s.digest, ":", "-"), base64.StdEncoding.EncodeToString(signature))
	}
	return fmt.Sprintf(`apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec: {clusterID: 0b3e4f2a-8a1c-4d2e-9f10-2f4a5b6c7d8e, channel: stable-4.20}
status:
  desired: {version: 4.20.9, image: "%[1]s@sha256:%[7]s"}
  history: [{state: Completed, version: 4.20.9, image: "%[1]s@sha256:%[7]s", startedTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T01:00:00Z", verified: true}]
  observedGeneration: 1
  versionHash: x
  availableUpdates:
  - {version: 4.20.10, image: "%[1]s@sha256:%[7]s"}
  - {version: %[2]s, image: "%[1]s@%[3]s"}
  conditionalUpdates:
  - release: {version: 4.21.4, image: "%[1]s@%[3]s"}
    risks: [{name: SlowBoot, url: "https://example.com", message: Nodes start slowly., matchingRules: [{type: Always}]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config-managed}
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: openshift-config-managed, name: release-verification}
data:
  verifier-public-key-redhat: |
%[4]s
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: openshift-config-managed, name: mirrored-release-signatures, labels: {release.openshift.io/verification-signatures: ""}}
%[5]s
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: openshift-config-managed, name: admin-gates}
data: {ack-4.20-sigstore-in-4.21: "This cluster has mirrors configured. 4.21 will require Sigstore signatures."}
---
apiVersion: config.openshift.io/v1
kind: Image
metadata: {name: cluster}
spec: {registrySources: {insecureRegistries: ["%[6]s"]}}
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms-release-0}
spec:
  imageDigestMirrors:
  - {source: %[1]s, mirrors: ["%[6]s/openshift/release-images"], mirrorSourcePolicy: NeverContactSource}
  - {source: %[8]s, mirrors: ["%[6]s/openshift/release"], mirrorSourcePolicy: NeverContactSource}
---
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata: {name: worker, labels: {pools.operator.machineconfiguration.openshift.io/worker: ""}}
spec:
  machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
---
apiVersion: v1
kind: Node
metadata: {name: a, labels: {node-role.kubernetes.io/master: ""}}
status: {nodeInfo: {operatingSystem: linux, architecture: amd64, machineID: a, systemUUID: a, bootID: a, kernelVersion: a, osImage: a, containerRuntimeVersion: a, kubeletVersion: a, kubeProxyVersion: a}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {node-role.kubernetes.io/worker: ""}}
status: {nodeInfo: {operatingSystem: linux, architecture: amd64, machineID: b, systemUUID: b, bootID: b, kernelVersion: b, osImage: b, containerRuntimeVersion: b, kubeletVersion: b, kubeProxyVersion: b}}
---
apiVersion: v1
kind: Secret
metadata: {namespace: openshift-config, name: pull-secret}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: e30=}
`, s.releases, newVersion, s.digest, "    "+strings.ReplaceAll(strings.TrimSpace(s.key), "\n", "\n    "), entry, s.mirror, strings.Repeat("a", 64), s.images)
}

// check runs check --release against a dump.
func (s *releaseStage) check(t testing.TB, dump, asked string, args ...string) clitest.Outcome {
	t.Helper()
	return invoke(t, "", append([]string{"check", "--release", asked, "--from", dump, "--allow-loopback"}, args...)...)
}

func (s *releaseStage) without(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.asked = map[string]bool{}, nil
	for _, path := range paths {
		s.gone[path] = true
	}
}

func (s *releaseStage) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func decodeRelease(t testing.TB, got clitest.Outcome) v1alpha1.ReleaseReview {
	t.Helper()
	var doc v1alpha1.ReleaseReview
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil {
		t.Fatalf("exit code %d, stderr %q: %v", got.Code, got.Err, err)
	}
	return doc
}

// TestReleaseLacksOne: a release of 190 images is ready, and without any one part of it not; the part is named.
func TestReleaseLacksOne(t *testing.T) {
	const images = 190
	s := newReleaseStage(t, images)
	dump := clitest.Written(t, "dump.yaml", s.objects(s.signed))
	s.without()
	got := s.check(t, dump, newVersion, "-o", "json")
	doc := decodeRelease(t, got)
	if got.Code != cli.ExitAdmitted || doc.Verdict != "READY" || doc.Counts.Ready != images+1 {
		t.Fatalf("got %d, %+v, %v, %s", got.Code, doc.Counts, doc.Signature, s.check(t, dump, newVersion).Out)
	}
	for _, asked := range s.requests() {
		if !strings.HasPrefix(asked, "GET ") && !strings.HasPrefix(asked, "HEAD ") || strings.Contains(asked, "/tags/") || strings.Contains(asked, "_catalog") {
			t.Errorf("asked what no node asks: %s", asked)
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for range *releaseWorlds {
		part := s.parts[random.IntN(len(s.parts))]
		s.without(part.path)
		got := s.check(t, dump, newVersion, "-o", "json")
		doc := decodeRelease(t, got)
		named := slices.ContainsFunc(doc.Images, func(i v1alpha1.ReleaseImage) bool {
			return i.Name == part.name && i.State == "NOT READY" && len(i.Findings) > 0
		})
		if got.Code != cli.ExitDenied || doc.Verdict != "NOT READY" || !named || doc.Counts.NotReady != 1 {
			t.Errorf("seed %d: without the %s of %s (%s): exit code %d, %s, %+v", seed, part.what, part.name, part.path, got.Code, doc.Verdict, doc.Counts)
		}
	}
	s.without()
	half := clitest.Written(t, "half.yaml", s.objects(s.signed[:len(s.signed)/2]))
	none := clitest.Written(t, "none.yaml", s.objects(nil))
	for name, dump := range map[string]string{"half a signature": half, "no signature": none} {
		got := s.check(t, dump, newVersion, "-o", "json")
		if doc := decodeRelease(t, got); got.Code != cli.ExitDenied || doc.Signature.State != "NOT READY" || !strings.Contains(doc.Signature.Reason, s.digest) {
			t.Errorf("%s: got %d, %+v", name, got.Code, doc.Signature)
		}
	}
}

// BenchmarkRelease: what check --release takes beyond the bare requests to the registry, in the same run.
func BenchmarkRelease(b *testing.B) {
	s := newReleaseStage(b, 190)
	dump := clitest.Written(b, "dump.yaml", s.objects(s.signed))
	var took, bare time.Duration
	for b.Loop() {
		s.without()
		start := time.Now()
		if got := s.check(b, dump, newVersion); got.Code != cli.ExitAdmitted {
			b.Fatal(got.Out, got.Err)
		}
		took += time.Since(start)
		requests := s.requests()
		start = time.Now()
		s.replay(b, requests)
		bare += time.Since(start)
		b.ReportMetric(float64(len(requests)), "requests")
	}
	b.ReportMetric(took.Seconds()/bare.Seconds(), "of-bare")
}

// replay sends requests with nothing but net/http, as many at once as the guard does.
func (s *releaseStage) replay(b *testing.B, requests []string) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	var group errgroup.Group
	group.SetLimit(64)
	for _, r := range requests {
		method, path, _ := strings.Cut(r, " ")
		group.Go(func() error {
			req, err := http.NewRequestWithContext(b.Context(), method, "http://"+s.mirror+path, nil)
			if err != nil {
				return err
			}
			req.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json,application/vnd.oci.image.index.v1+json,application/vnd.docker.distribution.manifest.v2+json")
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}
