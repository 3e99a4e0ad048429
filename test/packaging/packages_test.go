package packaging

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// version is that of the packages under test.
const version = "v0.1.0"

// packager is the program that `make packages` runs.
type packager struct{ program, kubectl string }

func newPackager(t *testing.T) packager {
	t.Helper()
	assets, err := repo.Assets()
	if err != nil {
		skip.Now(t, err)
	}
	p := packager{filepath.Join(t.TempDir(), "image"), filepath.Join(assets, "kubectl")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.program, "./image")
	build.Dir = filepath.Join(root, "tools")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return p
}

// run returns what it prints, or what it has to say of its failure.
func (p packager) run(t *testing.T, out string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.program, append([]string{"-packages", "-kubectl", p.kubectl, "-out", out}, args...)...)
	cmd.Dir = filepath.Join(root, "tools")
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.New(strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// made are packages, and the image that they install.
type made struct {
	image           string // REGISTRY/NAME@DIGEST
	repository      string
	dir             string
	bundle, catalog string // references by digest
	packager        packager
}

// pushedImage is the repository and the digest of an image in a registry that ends with the test.
func pushedImage(t *testing.T) (repository, digest string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository = strings.TrimPrefix(server.URL, "http://") + "/ops/mirrorset-guard"
	image, err := random.Index(64, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(repository + "@" + hash.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(reference, image); err != nil {
		t.Fatal(err)
	}
	return repository, hash.String()
}

// maintainer is asked for by OperatorHub.io.
const maintainer = "Jane Doe <jane@example.com>"

func makePackages(t *testing.T) made {
	t.Helper()
	m := made{packager: newPackager(t), dir: t.TempDir()}
	repository, digest := pushedImage(t)
	m.repository, m.image = repository, repository+"@"+digest
	output, err := m.packager.run(t, m.dir, "-version", version, "-image", m.image, "-push", repository+":"+version, "-maintainer", maintainer)
	if err != nil {
		t.Fatal(err)
	}
	printed := strings.Split(output, "\n")
	if len(printed) != 2 {
		t.Fatalf("it prints %q, want the bundle and the catalog", printed)
	}
	m.bundle, m.catalog = printed[0], printed[1]
	m.dir = filepath.Join(m.dir, "packages")
	return m
}

// TestPackages: what is made is the same byte for byte when it is made again, and is in the registry.
func TestPackages(t *testing.T) {
	m := makePackages(t)
	again := t.TempDir()
	output, err := m.packager.run(t, again, "-version", version, "-image", m.image, "-maintainer", maintainer)
	if err != nil {
		t.Fatal(err)
	}
	if want := m.bundle + "\n" + m.catalog; output != want {
		t.Errorf("the second time it made %s, not %s", output, want)
	}
	for _, file := range []string{"mirrorset-guard-0.1.0.tgz", "mirrorset-guard_v0.1.0_bundle.tar", "mirrorset-guard_v0.1.0_catalog.tar"} {
		first, err := os.ReadFile(filepath.Join(m.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(filepath.Join(again, "packages", file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s differs the second time", file)
		}
	}
	for name, reference := range map[string]string{"bundle": m.bundle, "catalog": m.catalog} {
		parsed := parse(t, reference)
		tag := parse(t, m.repository+"-"+name+":"+version)
		tagged, err := remote.Head(tag)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Identifier() != tagged.Digest.String() {
			t.Errorf("%s is %s, printed was %s", tag, tagged.Digest, parsed)
		}
		index, err := remote.Index(parsed)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 4 {
			t.Errorf("%s is for %d platforms (%v)", name, len(manifest.Manifests), err)
		}
	}
}

func parse(t *testing.T, reference string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestBadPackages: nothing is made of what could not be installed.
func TestBadPackages(t *testing.T) {
	p := newPackager(t)
	repository, digest := pushedImage(t)
	for _, c := range []struct {
		image, version, maintainer, want string
	}{
		{repository + ":v0.1.0", version, "", `image: "` + repository + `:v0.1.0": the tag v0.1.0 may be moved after it was checked: give REGISTRY/NAME@DIGEST, as make image prints it`},
		{repository, version, "", `want REGISTRY/NAME@DIGEST`},
		{"", version, "", `image: "": want REGISTRY/NAME@DIGEST`},
		{repository + "@" + digestOfNone, version, "", `image: "` + repository + `@` + digestOfNone + `": the registry does not have this digest: push the image first`},
		{"localhost:1/ops/guard@" + digest, version, "", `connection refused`},
		{repository + "@" + digest, "devel", "", `version: "devel": not the version of a release`},
		{repository + "@" + digest, version, "jane@example.com", `maintainer: "jane@example.com": want NAME <ADDRESS>`},
	} {
		out := t.TempDir()
		_, err := p.run(t, out, "-version", c.version, "-image", c.image, "-maintainer", c.maintainer)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Errorf("%s: %s is left", c.want, left[0].Name())
		}
	}
}

const digestOfNone = digest
