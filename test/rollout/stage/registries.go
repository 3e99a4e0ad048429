package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// Registries are those of the world outside: one real registry that answers under every
// host name, with other images for each. Nodes reach it through a proxy, and no name is
// looked up.
type Registries struct {
	// Front serves them, and says how they behave.
	Front *registries.Front
	// CA is the file with the certificate that they are to be verified by.
	CA string

	t      testing.TB
	dir    string
	puller string
	proxy  string
	asked  atomic.Int64
}

// Asked returns how often anybody has connected to a registry so far, or tried to.
func (r *Registries) Asked() int { return int(r.asked.Load()) }

// NewRegistries starts registries that end with the test, and have no images. The test is
// skipped where the programs are not in place.
func NewRegistries(t testing.TB) *Registries {
	t.Helper()
	dir := t.TempDir()
	front := registries.Start(t)
	r := &Registries{Front: front, CA: filepath.Join(dir, "ca.crt"), t: t, dir: dir, puller: program(t, "puller")}
	proxy := httptest.NewServer(http.HandlerFunc(r.connect))
	t.Cleanup(proxy.Close)
	r.proxy = proxy.URL
	if err := errors.Join(
		os.WriteFile(r.CA, front.CA, 0o600),
		os.WriteFile(r.path("policy.json"), []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o600),
		os.WriteFile(r.path("auth.json"), []byte(`{}`), 0o600),
		os.Mkdir(r.path("registries.d"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Registries) path(name string) string { return filepath.Join(r.dir, name) }

// Push makes the registries serve references ("quay.io/app/web:v1").
func (r *Registries) Push(refs ...string) {
	r.t.Helper()
	for _, ref := range refs {
		if err := r.Copy(ref); err != nil {
			r.t.Fatalf("pushing %s: %v", ref, err)
		}
	}
}

// Copy makes the registries serve a reference, as a copy from elsewhere does.
func (r *Registries) Copy(ref string) error {
	image, err := registries.Image(nameOf(ref))
	if err != nil {
		return err
	}
	return r.Front.Push(ref, image)
}

// digested are the names of images that ByDigest was asked for, by digest.
var digested sync.Map

// ByDigest returns the reference by digest that Push then serves, at any place: of one image for all hosts, which
// has the path and the tag of ref.
func ByDigest(ref string) (string, error) {
	_, path, _ := strings.Cut(ref, "/")
	image, err := registries.Image(path)
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	digested.Store(digest.String(), path)
	repository, _, _ := strings.Cut(ref, ":")
	return repository + "@" + digest.String(), nil
}

// nameOf returns the name by which the image of a reference is made.
func nameOf(ref string) string {
	_, digest, _ := strings.Cut(ref, "@")
	if name, ok := digested.Load(digest); ok {
		return name.(string)
	}
	return ref
}

// Mirror makes the registries serve a reference as a copy of another one, which has to be there.
func (r *Registries) Mirror(ctx context.Context, from, to string) error {
	files, err := os.MkdirTemp(r.dir, "copied-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files) //nolint:errcheck // the test's folder goes anyway
	conf := filepath.Join(files, mirrors.RegistriesConfPath)
	if err := errors.Join(os.MkdirAll(filepath.Dir(conf), 0o700), os.WriteFile(conf, nil, 0o600)); err != nil {
		return err
	}
	if err := r.pull(ctx, files, from); err != nil {
		return err
	}
	return r.Copy(to)
}

// connect is the proxy: it leads to the front by whatever name.
func (r *Registries) connect(w http.ResponseWriter, request *http.Request) {
	host, _, err := net.SplitHostPort(request.Host)
	hijacker, ok := w.(http.Hijacker)
	if request.Method != http.MethodConnect || err != nil || !ok {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	r.asked.Add(1)
	to, err := net.Dial("tcp", r.Front.Addr(host))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	fmt.Fprint(from, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(to, from) //nolint:errcheck // ends with either side
		to.Close()
	}()
	io.Copy(from, to) //nolint:errcheck // ends with either side
}

// pull pulls an image as a node with these files does: by the runtime's own library
// (test/truth/puller).
func (r *Registries) pull(ctx context.Context, files, image string) error {
	to, err := os.MkdirTemp(r.dir, "pulled-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(to) //nolint:errcheck // the test's folder goes anyway
	cmd := exec.CommandContext(ctx, r.puller,
		"-registries-conf", filepath.Join(files, mirrors.RegistriesConfPath),
		"-registries-conf-dir", filepath.Join(files, filepath.Dir(mirrors.SearchDropInPath)),
		"-policy", r.path("policy.json"), "-registries.d", r.path("registries.d"), "-authfile", r.path("auth.json"),
		"-arch", "amd64", image, to)
	cmd.Env = []string{"HOME=" + r.dir, "TMPDIR=" + r.dir, "SSL_CERT_FILE=" + r.CA, "HTTPS_PROXY=" + r.proxy}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
