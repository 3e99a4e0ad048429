package image

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// TestRelease: a release has what it should, for each platform, and is the same byte for byte if it is
// made again.
func TestRelease(t *testing.T) {
	skip.UnlessIntegration(t)
	assets, err := repo.Assets()
	if err != nil {
		skip.Now(t, err)
	}
	b := newBuilder(t).toy(t)
	b.addReleased(t)
	release := func() (string, map[string]string) {
		out := t.TempDir()
		digest := b.must(t, "-release", "-version", "v0.1.0", "-image", "registry.example.com/team/guard", "-kubectl", filepath.Join(assets, "kubectl"), "-out", out)
		all := map[string]string{}
		entries, err := os.ReadDir(filepath.Join(out, "release"))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			content, err := os.ReadFile(filepath.Join(out, "release", entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[entry.Name()] = string(content)
		}
		return digest, all
	}
	digest, all := release()

	if diff := cmp.Diff([]string{
		"SHA256SUMS",
		"imageset-config.yaml",
		"install.yaml",
		"krew.yaml",
		"mirror-with-oc.sh",
		"mirror-with-skopeo.sh",
		"mirrorset-guard-0.1.0.tgz",
		"mirrorset-guard_v0.1.0_bundle.tar",
		"mirrorset-guard_v0.1.0_catalog.tar",
		"mirrorset-guard_v0.1.0_darwin_amd64.cdx.json",
		"mirrorset-guard_v0.1.0_darwin_amd64.tar.gz",
		"mirrorset-guard_v0.1.0_darwin_arm64.cdx.json",
		"mirrorset-guard_v0.1.0_darwin_arm64.tar.gz",
		"mirrorset-guard_v0.1.0_image.tar",
		"mirrorset-guard_v0.1.0_linux_amd64.cdx.json",
		"mirrorset-guard_v0.1.0_linux_amd64.tar.gz",
		"mirrorset-guard_v0.1.0_linux_arm64.cdx.json",
		"mirrorset-guard_v0.1.0_linux_arm64.tar.gz",
		"mirrorset-guard_v0.1.0_windows_amd64.cdx.json",
		"mirrorset-guard_v0.1.0_windows_amd64.zip",
		"mirrorset-guard_v0.1.0_windows_arm64.cdx.json",
		"mirrorset-guard_v0.1.0_windows_arm64.zip",
	}, slices.Sorted(maps.Keys(all))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != "SHA256SUMS" {
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(all[name])), name)
		}
		switch binary := "mirrorset-guard"; {
		case strings.HasSuffix(name, ".tar.gz"):
			if got, want := inTarGzip(t, all[name]), []string{"LICENSE 644", binary + " 755"}; !slices.Equal(got, want) {
				t.Errorf("%s has %q, want %q", name, got, want)
			}
		case strings.HasSuffix(name, ".zip"):
			if got, want := inZip(t, all[name]), []string{"LICENSE", binary + ".exe"}; !slices.Equal(got, want) {
				t.Errorf("%s has %q, want %q", name, got, want)
			}
		}
	}
	if diff := cmp.Diff(sums.String(), all["SHA256SUMS"]); diff != "" {
		t.Errorf("SHA256SUMS (-want +got):\n%s", diff)
	}
	install := all["install.yaml"]
	if want := "image: registry.example.com/team/guard@" + digest + "\n"; strings.Count(install, "image: ") != 1 || !strings.Contains(install, want) {
		t.Errorf("install.yaml does not run %s", want)
	}
	if !strings.Contains(all["mirrorset-guard_v0.1.0_image.tar"], strings.TrimPrefix(digest, "sha256:")) {
		t.Errorf("%s is not in the layout", digest)
	}

	checkKrew(t, all)

	_, again := release()
	for name := range all {
		if all[name] != again[name] {
			t.Errorf("%s differs if it is made again", name)
		}
	}
}

// A krewManifest is what krew reads of a plugin (sigs.k8s.io/krew, pkg/index/types.go), and nothing else.
type krewManifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			SHA256 string `json:"sha256"`
			Bin    string `json:"bin"`
		} `json:"platforms"`
	} `json:"spec"`
}

// checkKrew holds krew's manifest to what krew demands of one (internal/index/validation), and to the
// archives.
func checkKrew(t *testing.T, all map[string]string) {
	t.Helper()
	var m krewManifest
	if err := yaml.UnmarshalStrict([]byte(all["krew.yaml"]), &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "mirrorset" || m.Spec.Version != "v0.1.0" {
		t.Errorf("%+v", m)
	}
	if d := m.Spec.ShortDescription; d == "" || len(d) > 50 || strings.HasSuffix(d, ".") {
		t.Errorf("short description %q", d)
	}
	if len(m.Spec.Platforms) != 6 {
		t.Errorf("%d platforms", len(m.Spec.Platforms))
	}
	for _, p := range m.Spec.Platforms {
		name := p.URI[strings.LastIndexByte(p.URI, '/')+1:]
		platform := p.Selector.MatchLabels["os"] + "_" + p.Selector.MatchLabels["arch"]
		content, found := all[name]
		if !found || p.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(content))) || !strings.Contains(name, "_v0.1.0_"+platform+".") {
			t.Errorf("%s: %+v", platform, p)
		}
		files := []string{}
		if strings.HasSuffix(name, ".zip") {
			files = inZip(t, content)
		} else {
			for _, f := range inTarGzip(t, content) {
				files = append(files, strings.TrimSuffix(f, " 755"))
			}
		}
		if !slices.Contains(files, p.Bin) {
			t.Errorf("%s has %q, and not %s", name, files, p.Bin)
		}
	}
}

// inTarGzip returns the files of an archive with their modes.
func inTarGzip(t *testing.T, content string) []string {
	t.Helper()
	compressed, err := gzip.NewReader(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %o", header.Name, header.Mode))
	}
}

func inZip(t *testing.T, content string) []string {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader([]byte(content)), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range archive.File {
		all = append(all, f.Name)
	}
	return all
}
