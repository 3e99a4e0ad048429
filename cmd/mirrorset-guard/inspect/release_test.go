package inspect

import (
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// releaseWorlds is how many parts of a release are taken away at random, one at a time, besides those of each kind.
var releaseWorlds = flag.Int("release-worlds", 2, "how many parts of a release TestReleaseLacksOne takes away at random, besides one of each kind")

// A releaseStage is asked about its release.
type releaseStage struct{ *testrelease.Stage }

// check runs check --release against a dump.
func (s releaseStage) check(t testing.TB, dump, asked string, args ...string) clitest.Outcome {
	t.Helper()
	return invoke(t, "", append([]string{"check", "--release", asked, "--from", dump, "--allow-loopback"}, args...)...)
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
	s := releaseStage{testrelease.Mirrored(t, images)}
	dump := clitest.Written(t, "dump.yaml", s.Objects(s.Signed))
	s.Without()
	got := s.check(t, dump, testrelease.Version, "-o", "json")
	doc := decodeRelease(t, got)
	if got.Code != cli.ExitAdmitted || doc.Verdict != "READY" || doc.Counts.Ready != images+1 {
		t.Fatalf("got %d, %+v, %v, %s", got.Code, doc.Counts, doc.Signature, s.check(t, dump, testrelease.Version).Out)
	}
	for _, asked := range s.Requests() {
		if !strings.HasPrefix(asked, "GET ") && !strings.HasPrefix(asked, "HEAD ") || strings.Contains(asked, "/tags/") || strings.Contains(asked, "_catalog") {
			t.Errorf("asked what no node asks: %s", asked)
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	s.lacksOne(t, dump, s.anyOf(random, *releaseWorlds))
	small := releaseStage{testrelease.Mirrored(t, 12)}
	small.lacksOne(t, clitest.Written(t, "small.yaml", small.Objects(small.Signed)), small.ofEachKind(t))
}

// lacksOne takes parts of a release away, one at a time.
func (s releaseStage) lacksOne(t *testing.T, dump string, parts []testrelease.Part) {
	t.Helper()
	for _, part := range parts {
		s.Without(part.Path)
		got := s.check(t, dump, testrelease.Version, "-o", "json")
		doc := decodeRelease(t, got)
		named := slices.ContainsFunc(doc.Images, func(i v1alpha1.ReleaseImage) bool {
			return i.Name == part.Name && i.State == "NOT READY" && len(i.Findings) > 0
		})
		if got.Code != cli.ExitDenied || doc.Verdict != "NOT READY" || !named || doc.Counts.NotReady != 1 {
			t.Errorf("without the %s of %s (%s): exit code %d, %s, %+v", part.What, part.Name, part.Path, got.Code, doc.Verdict, doc.Counts)
		}
	}
}

// ofEachKind returns a part of each kind that may be missing, and of each image that stands out.
func (s releaseStage) ofEachKind(t *testing.T) []testrelease.Part {
	t.Helper()
	parts := []testrelease.Part{s.PartOf("cluster-version-operator", "image"), s.PartOf("rhel-coreos", "image"), s.PartOf("rhel-coreos-extensions", "image")}
	for _, what := range []string{"image", "layer", "signature"} {
		parts = append(parts, s.PartOf("release", what))
	}
	for _, what := range []string{"image", "child", "layer", "signature"} {
		i := slices.IndexFunc(s.Parts, func(p testrelease.Part) bool { return p.What == what && strings.HasPrefix(p.Name, "component-") })
		if i < 0 {
			t.Fatalf("the release has no %s", what)
		}
		parts = append(parts, s.Parts[i])
	}
	return parts
}

func (s releaseStage) anyOf(random *rand.Rand, n int) []testrelease.Part {
	parts := make([]testrelease.Part, n)
	for i := range parts {
		parts[i] = s.Parts[random.IntN(len(s.Parts))]
	}
	return parts
}

// otherSignatures is a ConfigMap with signatures of other releases, which say nothing of this one.
const otherSignatures = `---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: openshift-config-managed, name: other-signatures, labels: {release.openshift.io/verification-signatures: ""}}
binaryData: {sha256-aaaa-1: b3RoZXI=, sha256-bbbb-1: b3RoZXI=}
`

// TestReleaseLacksEntry takes away all that ConfigMaps have for the release, one after the other: it is named, and what is not for this release is not
// missed.
func TestReleaseLacksEntry(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	s.Without()
	key := strings.ReplaceAll(s.Digest, ":", "-") + "-1"
	whole := s.Objects(s.Signed) + otherSignatures
	replaced := func(old, by string) string {
		if !strings.Contains(whole, old) {
			t.Fatalf("no %q in the objects", old)
		}
		return strings.Replace(whole, old, by, 1)
	}
	const signatureLabel = `name: mirrored-release-signatures, labels: {release.openshift.io/verification-signatures: ""}`
	worlds := []struct {
		without, objects string
		code             int
		state, names     string
	}{
		{"the signature", replaced(key+": ", "sha256-cccc-1: "), cli.ExitDenied, "NOT READY", s.Digest},
		{"the ConfigMap of the signature", replaced(signatureLabel, "name: another"), cli.ExitDenied, "NOT READY", s.Digest},
		{"the end of the signature", s.Objects(s.Signed[:random.IntN(len(s.Signed)-1)+1]) + otherSignatures, cli.ExitDenied, "NOT READY", s.Digest},
		{"half of the signature", s.Objects(s.Signed[:len(s.Signed)/2]) + otherSignatures, cli.ExitDenied, "NOT READY", s.Digest},
		{"the number of the signature", replaced(key+": ", strings.TrimSuffix(key, "-1")+": "), cli.ExitDenied, "NOT READY", s.Digest},
		{"the keyring", replaced("verifier-public-key-redhat", "another-key"), cli.ExitTrouble, "UNKNOWN", "ConfigMap openshift-config-managed/release-verification has no key"},
		{"the ConfigMap of keyrings", replaced("name: release-verification", "name: another"), cli.ExitTrouble, "UNKNOWN", "ConfigMap openshift-config-managed/release-verification, which has the keys, was not found"},
		{"a signature of another release", replaced("sha256-bbbb-1: b3RoZXI=", "sha256-dddd-1: b3RoZXI="), cli.ExitAdmitted, "READY", key},
		{"the signatures of other releases", s.Objects(s.Signed), cli.ExitAdmitted, "READY", key},
	}
	for _, world := range worlds {
		got := s.check(t, clitest.Written(t, "world.yaml", world.objects), testrelease.Version, "-o", "json")
		doc := decodeRelease(t, got)
		said := doc.Signature.Reason + "\n" + strings.Join(doc.Signature.Detail, "\n")
		if got.Code != world.code || doc.Verdict != world.state || doc.Signature.State != world.state || !strings.Contains(said, world.names) || doc.Counts.NotReady+doc.Counts.Unknown != 0 {
			t.Errorf("seed %d: without %s: exit code %d, %s, %+v", seed, world.without, got.Code, doc.Verdict, doc.Signature)
		}
	}
}

// BenchmarkRelease: what check --release takes beyond the bare requests to the registry, in the same run. Both find a registry
// that has answered the same requests before; the guard itself knows nothing each time. Other work on the machine comes and goes, so that medians
// are compared.
func BenchmarkRelease(b *testing.B) {
	s := releaseStage{testrelease.Mirrored(b, 190)}
	dump := clitest.Written(b, "dump.yaml", s.Objects(s.Signed))
	check := func() time.Duration {
		s.Without()
		start := time.Now()
		if got := s.check(b, dump, testrelease.Version); got.Code != cli.ExitAdmitted {
			b.Fatal(got.Out, got.Err)
		}
		return time.Since(start)
	}
	check()
	requests := s.Requests()
	var took, bare []time.Duration
	for b.Loop() {
		took = append(took, check())
		if n := len(s.Requests()); n != len(requests) {
			b.Fatalf("%d requests, and %d before", n, len(requests))
		}
		start := time.Now()
		s.replay(b, requests)
		bare = append(bare, time.Since(start))
	}
	b.ReportMetric(float64(len(requests)), "requests")
	b.ReportMetric(median(took).Seconds(), "s-check")
	b.ReportMetric(median(bare).Seconds(), "s-bare")
	b.ReportMetric(median(took).Seconds()/median(bare).Seconds(), "of-bare")
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// replay sends requests with nothing but net/http, as many at once as the guard does.
func (s releaseStage) replay(b *testing.B, requests []string) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	var group errgroup.Group
	group.SetLimit(64)
	for _, r := range requests {
		method, path, _ := strings.Cut(r, " ")
		group.Go(func() error {
			req, err := http.NewRequestWithContext(b.Context(), method, "http://"+s.Mirror+path, nil)
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
