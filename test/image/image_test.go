package image

import (
	"archive/tar"
	"cmp"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

const version = "v0.1.0-test"

// subject is an image that was built and pushed.
type subject struct {
	builder
	platforms string
	tag       string // REGISTRY/NAME:TAG
	reference name.Digest
	publicKey string // file
	layout    string // folder
	index     v1.ImageIndex
	parts     map[string]v1.Image // by platform
}

// TestImage builds the image, pushes it to a real registry, and looks at it as others will. IMAGE_PLATFORMS
// says for which platforms: each takes minutes until it is in Go's cache.
func TestImage(t *testing.T) {
	registries.Need(t)
	s := newSubject(t)
	t.Run("the same commit makes the same image elsewhere", s.testReproducible)
	t.Run("each platform is valid", s.testValid)
	t.Run("certification accepts it", s.testCertification)
	t.Run("the Dockerfile makes the same", s.testDockerfile)
	t.Run("it runs as its user and has all it needs", s.testRuns)
	t.Run("skopeo inspects it", s.testSkopeo)
	t.Run("the SBOM is found and names what the binary was built from", s.testSBOM)
	t.Run("nodes accept the signature", s.testSignature)
}

func newSubject(t *testing.T) *subject {
	t.Helper()
	registry, err := registries.StartProcess(t.TempDir(), "", "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registry.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &subject{
		builder:   newBuilder(t),
		platforms: cmp.Or(os.Getenv("IMAGE_PLATFORMS"), "linux/amd64"),
		tag:       registry.Addr + "/team/mirrorset-guard:" + version,
		parts:     map[string]v1.Image{},
	}
	key, public := newKey(t)
	s.publicKey = public
	out := t.TempDir()
	s.layout = filepath.Join(out, "image")
	pushed := s.must(t, "-version", version, "-platforms", s.platforms, "-out", out, "-push", s.tag, "-key", key)
	if s.reference, err = name.NewDigest(pushed); err != nil {
		t.Fatal(err)
	}
	if s.index, err = remote.Index(s.reference); err != nil {
		t.Fatal(err)
	}
	manifest, err := s.index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range manifest.Manifests {
		if s.parts[part.Platform.String()], err = s.index.Image(part.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// each calls test for each platform.
func (s *subject) each(t *testing.T, test func(t *testing.T, image v1.Image)) {
	for platform, image := range s.parts {
		t.Run(platform, func(t *testing.T) { test(t, image) })
	}
}

// here returns the image for the machine that runs the test, nil if it was not built.
func (s *subject) here(t *testing.T) v1.Image {
	image := s.parts["linux/"+runtime.GOARCH]
	if image == nil {
		skip.Part(t, "no image was built for the platform of this machine")
	}
	return image
}

func (s *subject) testReproducible(t *testing.T) {
	digest := s.copied(t).must(t, "-version", version, "-platforms", s.platforms, "-out", t.TempDir())
	if digest != s.reference.DigestStr() {
		t.Errorf("built twice: %s and %s", s.reference.DigestStr(), digest)
	}
}

func (s *subject) testValid(t *testing.T) {
	if err := validate.Index(s.index); err != nil {
		t.Error(err)
	}
	if got := slices.Sorted(maps.Keys(s.parts)); strings.Join(got, ",") != s.platforms {
		t.Errorf("it is for %s, want %s", got, s.platforms)
	}
	tag, err := name.NewTag(s.tag)
	if err != nil {
		t.Fatal(err)
	}
	if head, err := remote.Head(tag); err != nil || head.Digest.String() != s.reference.DigestStr() {
		t.Errorf("%s is %v (%v), want %s", tag, head, err, s.reference.DigestStr())
	}
	onDisk, err := layout.ImageIndexFromPath(s.layout)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(onDisk); err != nil {
		t.Error(err)
	}
	manifest, err := onDisk.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	first := manifest.Manifests[0]
	if first.Digest.String() != s.reference.DigestStr() || first.Annotations["org.opencontainers.image.ref.name"] != version {
		t.Errorf("the layout has %s %v, want %s of %s", first.Digest, first.Annotations, s.reference.DigestStr(), version)
	}
	s.each(t, func(t *testing.T, image v1.Image) {
		for path, f := range files(t, image) {
			mode := int64(0o644)
			if f.Typeflag == tar.TypeDir || path == "/mirrorset-guard" {
				mode = 0o755
			}
			if f.Mode != mode || f.Uid != 0 || f.Gid != 0 || f.ModTime.Unix() != epoch {
				t.Errorf("%s: mode %o, owner %d:%d, made at %d; want %o, 0:0, %d", path, f.Mode, f.Uid, f.Gid, f.ModTime.Unix(), mode, epoch)
			}
		}
	})
}

// testCertification holds the image to what preflight, Red Hat's program, asks of an image from scratch
// (https://github.com/redhat-openshift-ecosystem/openshift-preflight, internal/policy/container).
func (s *subject) testCertification(t *testing.T) {
	s.each(t, func(t *testing.T, image v1.Image) {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		// RunAsNonRoot
		if !regexp.MustCompile(`^[1-9]\d*(:\d+)?$`).MatchString(config.Config.User) {
			t.Errorf("the user is %q, want a number that is not root's", config.Config.User)
		}
		// HasRequiredLabel
		for _, label := range []string{"name", "vendor", "version", "release", "summary", "description", "maintainer"} {
			if config.Config.Labels[label] == "" {
				t.Errorf("there is no label %s", label)
			}
		}
		// HasLicense
		licensed := false
		for path, f := range files(t, image) {
			licensed = licensed || filepath.Dir(path) == "/licenses" && len(f.content) > 0
		}
		if !licensed {
			t.Error("there is no file in /licenses")
		}
		// LayerCountAcceptable: fewer than 40
		if layers, err := image.Layers(); err != nil || len(layers) == 0 || len(layers) >= 40 {
			t.Errorf("it has %d layers (%v)", len(layers), err)
		}
	})
}

func (s *subject) testDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repo.Root(), "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(string(text), "\nFROM scratch\n")
	want := v1.Config{Labels: map[string]string{}}
	var wantFiles []string
	for line := range strings.Lines(strings.ReplaceAll(last, "\\\n", " ")) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "", "#", "ARG":
		case "LABEL":
			for _, label := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(rest, -1) {
				want.Labels[label[1]] = strings.ReplaceAll(label[2], "$VERSION", version)
			}
		case "COPY":
			fields := strings.Fields(rest)
			wantFiles = append(wantFiles, fields[len(fields)-1])
		case "USER":
			want.User = rest
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &want.Entrypoint); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("what does %s do to the image?", instruction)
		}
	}
	slices.Sort(wantFiles)
	s.each(t, func(t *testing.T, image v1.Image) {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, config.Config); diff != "" {
			t.Errorf("configuration (-Dockerfile +make image):\n%s", diff)
		}
		all := files(t, image)
		maps.DeleteFunc(all, func(_ string, f file) bool { return f.Typeflag == tar.TypeDir })
		if diff := gocmp.Diff(wantFiles, slices.Sorted(maps.Keys(all))); diff != "" {
			t.Errorf("files (-Dockerfile +make image):\n%s", diff)
		}
	})
}

func (s *subject) testRuns(t *testing.T) {
	image := s.here(t)
	if image == nil {
		return
	}
	root := unpack(t, image)
	cas, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(cas) {
		t.Errorf("no CA is where Go looks for them (%v)", err)
	}
	if os.Getuid() != 0 {
		skip.Part(t, "only root may change the root and the user")
		return
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), config.Config.Entrypoint[0], "version")
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	output, err := cmd.CombinedOutput()
	want := fmt.Sprintf("mirrorset-guard %s linux/%s %s\n", version, runtime.GOARCH, runtime.Version())
	if err != nil || !strings.HasPrefix(string(output), want) {
		t.Errorf("%v\n%s\nwant %s", err, output, want)
	}
}

func (s *subject) testSkopeo(t *testing.T) {
	program, err := exec.LookPath("skopeo")
	if err != nil {
		skip.Part(t, fmt.Sprint("skopeo is not installed (apt-get install skopeo): ", err))
		return
	}
	s.each(t, func(t *testing.T, image v1.Image) {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		inspect := exec.CommandContext(t.Context(), program, "--override-os", "linux", "--override-arch", config.Architecture, "inspect", "--tls-verify=false", "docker://"+s.tag)
		output, err := inspect.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Digest, Architecture string
			Labels               map[string]string
		}
		if err := json.Unmarshal(output, &got); err != nil {
			t.Fatal(err)
		}
		if got.Digest != s.reference.DigestStr() || got.Architecture != config.Architecture || got.Labels["version"] != version {
			t.Errorf("got %+v", got)
		}
	})
}

func (s *subject) testSBOM(t *testing.T) {
	s.each(t, func(t *testing.T, image v1.Image) {
		var bom struct {
			BOMFormat string
			Metadata  struct {
				Component struct{ Name, Version string }
			}
			Components []struct{ Name, Version string }
		}
		if err := json.Unmarshal(s.referred(t, image, "application/vnd.cyclonedx+json"), &bom); err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, c := range bom.Components {
			got = append(got, c.Name+" "+c.Version)
		}
		show := exec.CommandContext(t.Context(), "go", "version", "-m", filepath.Join(unpack(t, image), "mirrorset-guard"))
		output, err := show.Output()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "stdlib "+strings.TrimPrefix(runtime.Version(), "go"))
		for line := range strings.Lines(string(output)) {
			if fields := strings.Fields(line); fields[0] == "dep" {
				want = append(want, fields[1]+" "+fields[2])
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" || len(want) < 50 {
			t.Errorf("%d modules (-go version -m, +SBOM):\n%s", len(want), diff)
		}
		if main := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || main.Name != "github.com/mirrorset-guard/mirrorset-guard" || main.Version != version {
			t.Errorf("it is a document of format %q about %+v", bom.BOMFormat, main)
		}
	})
}

// referred returns the content of the one artifact of a type that refers to an image.
func (s *subject) referred(t *testing.T, image v1.Image, artifactType string) []byte {
	t.Helper()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(s.reference.Context().Digest(digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != artifactType {
		t.Fatalf("referrers: %+v, want one of type %s", manifest.Manifests, artifactType)
	}
	artifact, err := remote.Image(s.reference.Context().Digest(manifest.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(artifact); err != nil {
		t.Error(err)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want one", len(layers), err)
	}
	reader, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (s *subject) testSignature(t *testing.T) {
	_, another := newKey(t)
	n := newNode(t, s.first())
	for _, tc := range []struct {
		reason, image, key, want string
	}{
		{"by tag", s.tag, s.publicKey, ""},
		{"by digest", s.reference.Name(), s.publicKey, ""},
		{"under a policy with another key", s.tag, another, "invalid signature when validating ASN.1 encoded signature"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := n.pull(t, tc.image, tc.key); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s\nwant %q", got, tc.want)
			}
		})
	}
}

// first returns a platform for which the image was built.
func (s *subject) first() string {
	first, _, _ := strings.Cut(s.platforms, ",")
	return first
}
