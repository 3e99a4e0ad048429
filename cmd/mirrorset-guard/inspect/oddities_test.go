package inspect

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// oddities returns the arguments of a check of the change in testdata/oddities.txtar, with n of what there are many of. The registries have
// every image, but the mirror lacks the support tools.
func oddities(t testing.TB, n int) (args []string, dump string) {
	t.Helper()
	const config = `{"architecture":"amd64","os":"linux"}`
	sum := func(content string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) }
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%[1]q,"size":%[2]d},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":%[1]q,"size":%[2]d}]}`, sum(config), len(config))
	digest := sum(manifest)
	flags := clitest.RegistryAt(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/v2/"):
		case strings.Contains(r.URL.Path, "rh/rhel9/support-tools"):
			w.WriteHeader(http.StatusNotFound)
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", digest)
			w.Header().Set("Content-Length", strconv.Itoa(len(manifest)))
			fmt.Fprint(w, manifest)
		case strings.Contains(r.URL.Path, "/blobs/"):
			w.Header().Set("Content-Length", strconv.Itoa(len(config)))
			fmt.Fprint(w, config)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	_, at, _ := strings.Cut(flags[len(flags)-1], "=")
	flags = append(flags, "--resolve", "registry.redhat.io="+at) // for which it has no certificate
	archive, err := txtar.ParseFile(filepath.Join("testdata", "oddities.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	written := func(one, many txtar.File) string {
		all := string(one.Data)
		for i := range n {
			all += strings.NewReplacer("{N}", strconv.Itoa(i), "DIGEST", digest).Replace(string(many.Data))
		}
		return clitest.Written(t, one.Name, all)
	}
	dump = written(archive.Files[0], archive.Files[1])
	cache := clitest.Written(t, "config.yaml", "apiVersion: config.mirrorset-guard.io/v1alpha1\nkind: GuardConfiguration\ncaches: [example.com/rh]\n")
	return append([]string{"check", "--from", dump, "--config", cache, "-f", written(archive.Files[2], archive.Files[3])}, flags...), dump
}

// TestOddities: the answer about a cluster with all of these at once fits on two screens, and leaves out none of them. Of Windows nodes every
// format says that nothing was verified.
func TestOddities(t *testing.T) {
	args, _ := oddities(t, 12)
	got := invoke(t, "", args...)
	lines := 0
	for line := range strings.Lines(got.Out + got.Err) {
		lines += 1 + len(line)/120
	}
	if lines > 2*50 {
		t.Errorf("%d lines of 120 columns", lines)
	}
	for _, want := range []string{
		"is admitted", "not verified: Windows nodes, which run 12 images", "not judged: 12 hosted clusters", "12 objects do nothing", "12 scopes require nothing of any image in use",
		"RescueMissing", "command toolbox", "see to the upstream of the pull-through cache example.com", "have Kafka k", "see to CephCluster data", "and 7 more: spec.imageContentSources of this HostedCluster is not judged",
		"will ask in this order: ", "pull and hold 12 images", "all pulled by tag",
	} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	args, dump := oddities(t, 2)
	for _, format := range []string{"json", "yaml", "junit", "markdown", "html", "sarif"} {
		if got := invoke(t, "", append(args, "-o", format)...); !strings.Contains(got.Out, "not verified: Windows nodes, which run 2 images") || strings.Contains(got.Out, "all verified") {
			t.Errorf("%s: %s", format, got)
		}
	}
	for _, format := range []string{"table", "json"} {
		if got := invoke(t, "", "explain", "quay.example.com/mcr/iis0:v1", "--from", dump, "-o", format); !strings.Contains(got.Out, "not for Windows nodes") {
			t.Errorf("explain, %s: %s", format, got)
		}
	}
}

// BenchmarkOddities measures the check of such a cluster, and how many times as long it takes as decoding the dump, the least that it could.
func BenchmarkOddities(b *testing.B) {
	args, dump := oddities(b, 12)
	data, err := os.ReadFile(dump)
	if err != nil {
		b.Fatal(err)
	}
	var floor time.Duration
	for b.Loop() {
		began := time.Now()
		for _, document := range strings.Split(string(data), "\n---\n") {
			if err := yaml.Unmarshal([]byte(document), new(map[string]any)); err != nil {
				b.Fatal(err)
			}
		}
		floor += time.Since(began)
		invoke(b, "", args...)
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)-floor.Seconds()/float64(b.N), "s/check")
	b.ReportMetric(b.Elapsed().Seconds()/floor.Seconds()-1, "floors")
}
