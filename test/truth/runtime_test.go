package truth

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/docker/reference"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

// A result is what a runtime did.
type result struct {
	pulled bool
	// from is the repository whose manifest it asked for last, which is where the
	// image came from if it was pulled.
	from string
	// says is its output.
	says string
}

// A runtime is a program that pulls images as nodes do.
type runtime struct {
	name string
	// command returns the command that pulls the image of a scenario, nil if the runtime
	// cannot do that.
	command func(*scenario, node) []string
}

// A node is a folder with a node's files.
type node struct {
	folder string
	env    []string
}

func (n node) path(name string) string { return filepath.Join(n.folder, name) }

// The files of a node, as far as containers/image reads them. The first one is
// where it looks in a home directory, and with it comes a registries.conf.d that is
// not there.
const (
	configFile = ".config/containers/registries.conf"
	configDir  = ".config/containers/registries.conf.d"
	certsDir   = ".config/containers/certs.d"
	policyFile = "policy.json"
	authFile   = "auth.json"
	caFile     = "ca.crt"
	sigstore   = "registries.d"
)

// newNode writes the files that nodes would get for a scenario.
func newNode(t *testing.T, w *world, s *scenario) node {
	t.Helper()
	n := node{folder: t.TempDir()}
	n.env = []string{"HOME=" + n.folder, "TMPDIR=" + n.folder, "PATH=" + os.Getenv("PATH"), "SSL_CERT_FILE=" + n.path(caFile)}
	var config bytes.Buffer
	if err := toml.NewEncoder(&config).Encode(s.table.Config()); err != nil {
		t.Fatal(err)
	}
	n.write(t, configFile, config.Bytes())
	n.write(t, policyFile, s.policy)
	n.write(t, authFile, s.pullSecret)
	n.write(t, caFile, w.ca.pem)
	for _, h := range s.hosts {
		if h.manner == private {
			n.write(t, filepath.Join(certsDir, h.addr, "ca.crt"), w.private.pem)
		}
	}
	if err := os.Mkdir(n.path(sigstore), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, contents := range s.attachments {
		n.write(t, filepath.Join(sigstore, name), contents)
	}
	return n
}

func (n node) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.path(name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// patience is for one pull; the slowest takes a second.
const patience = 5 * time.Minute

// pull lets a runtime pull, and asks the hosts from where. It returns false if the
// runtime cannot do that.
func (r runtime) pull(t *testing.T, s *scenario, n node) (result, bool) {
	t.Helper()
	args := r.command(s, n)
	if args == nil {
		return result{}, false
	}
	for _, h := range s.hosts {
		h.begin()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = n.env
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s did not end within %v\n%s", r.name, patience, out)
	}
	return result{pulled: err == nil, from: s.lastAsked(), says: strings.TrimSpace(string(out))}, true
}

// lastAsked returns the repository whose manifest was asked for last.
func (s *scenario) lastAsked() string {
	var last request
	for _, h := range s.hosts {
		if r := h.last(); r.at.After(last.at) {
			last = r
		}
	}
	return last.repository
}

// skopeo returns the packaged program, or an error if there is none.
func skopeo() (runtime, error) {
	program, err := exec.LookPath("skopeo")
	if err != nil {
		return runtime{}, fmt.Errorf("skopeo is not installed (apt-get install skopeo): %w", err)
	}
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		return runtime{}, fmt.Errorf("asking skopeo for its version: %w", err)
	}
	return runtime{name: strings.TrimSpace(string(version)), command: func(s *scenario, n node) []string {
		image, ok := fullName(s)
		if !ok {
			return nil
		}
		args := []string{program, "--policy", n.path(policyFile), "--registries.d", n.path(sigstore), "--override-os", "linux", "--override-arch", s.arch, "--tmpdir", n.folder, "copy", "--src-authfile", n.path(authFile)}
		if s.podSecret != "" {
			args = append(args, "--src-creds", s.podSecret)
		}
		return append(args, "docker://"+image, "dir:"+n.path("skopeo"))
	}}, nil
}

// fullName returns the reference as CRI-O passes it on: with a digest or a tag. A
// short name is more than one reference, which skopeo does not support.
func fullName(s *scenario) (string, bool) {
	if s.short() {
		return "", false
	}
	ref, err := reference.ParseDockerRef(s.image)
	if err != nil {
		return "", false
	}
	return ref.String(), true
}

// puller builds the program in the folder puller.
func puller(dir string) (runtime, error) {
	program := filepath.Join(dir, "puller")
	build := exec.Command("go", "build", "-tags", "containers_image_openpgp,containers_image_fulcio_stub,containers_image_rekor_stub", "-o", program, ".")
	build.Dir = filepath.Join(repo.Root(), "test", "truth", "puller")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return runtime{}, fmt.Errorf("building the puller: %w\n%s", err, out)
	}
	return runtime{name: "containers/image v5.36.2", command: func(s *scenario, n node) []string {
		args := []string{program, "-registries-conf", n.path(configFile), "-registries-conf-dir", n.path(configDir), "-policy", n.path(policyFile), "-registries.d", n.path(sigstore), "-authfile", n.path(authFile), "-arch", s.arch}
		if s.podSecret != "" {
			args = append(args, "-creds", s.podSecret)
		}
		return slices.Concat(args, []string{s.image, n.path("puller")})
	}}, nil
}
