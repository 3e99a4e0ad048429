package copying

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// A server is a real registry behind a proxy that may get in the way.
type server struct {
	host string // of the proxy
	real string // of the registry
	// before answers a request instead of the registry, and says so.
	before   atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	mu       sync.Mutex
	requests []string // with the headers that matter
}

func (s *server) set(f func(http.ResponseWriter, *http.Request) bool) { s.before.Store(&f) }

// refuses answers with a status where which holds.
func (s *server) refuses(status int, which func(*http.Request) bool) {
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		refused := which(r)
		if refused {
			w.WriteHeader(status)
		}
		return refused
	})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization"))
	s.mu.Unlock()
	if f := s.before.Load(); f != nil && (*f)(w, r) {
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: s.real})
			p.Out.Host = p.In.Host
		},
		ErrorLog: quiet,
	}
	proxy.ServeHTTP(w, r)
}

func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// count returns how many requests had all of parts.
func (s *server) count(parts ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(r, p) }) {
			n++
		}
	}
	return n
}

func serve(t testing.TB, p *registries.Process, err error) *server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() }) // a registry that does not end fails no test of what it did
	s := &server{real: p.Addr}
	front := httptest.NewUnstartedServer(s)
	front.Config.ErrorLog = quiet
	front.Start()
	t.Cleanup(front.Close)
	s.host = strings.TrimPrefix(front.URL, "http://")
	return s
}

func newServer(t testing.TB) *server {
	t.Helper()
	return serve(t, registries.Run(t), nil)
}

func olderServer(t testing.TB) *server {
	t.Helper()
	skip.UnlessIntegration(t)
	if _, err := registries.OlderBinary(); err != nil {
		skip.Now(t, err)
	}
	p, err := registries.StartOlderProcess(t.TempDir(), io.Discard)
	return serve(t, p, err)
}

// A stage is two registries, and a Copier from one to the other.
type stage struct {
	source, mirror *server
	pull           *registry.Client
	push           *wire.Client
}

func newStage(t testing.TB, source, mirror *server) *stage {
	t.Helper()
	pull := registry.NewClient(wire.Options{AllowLoopback: true}, nil)
	t.Cleanup(pull.Close)
	push := pull.With(pullsecret.Credentials{})
	t.Cleanup(push.Close)
	return &stage{source, mirror, pull, push}
}

// copy is what a plan says of an image of this name and version (":v1").
func (s *stage) copy(image, digest string) policy.Copy {
	at := func(host string) mirrors.Location { return mirrors.Location{Ref: host + "/" + image, Insecure: true} }
	return policy.Copy{Image: policy.Image{Ref: s.source.host + "/" + image}, From: []mirrors.Location{at(s.source.host)}, Digest: digest, Found: true, To: at(s.mirror.host)}
}

// filled returns the copy of an image of these layers, once the source has it.
func (s *stage) filled(t testing.TB, at string, layers ...string) policy.Copy {
	t.Helper()
	img := image(t, layers...)
	check(t, remote.Write(ref(t, s.source.host+"/"+at), img))
	return s.copy(at, must[v1.Hash](t)(img.Digest()).String())
}

func (s *stage) run(ctx context.Context, o Options, copies ...policy.Copy) []*Job {
	return New(s.pull, s.push, o).Copy(ctx, copies, func([]*Job) {})
}

// An attached image of two platforms: signatures of each part and of the index, attestations and SBOMs of the index and of a part,
// and what refers to either.
type fixture struct {
	index  v1.ImageIndex
	digest string
	part   string   // the digest of the first part
	tags   []string // what is attached to it under tags
}

func ref(t testing.TB, s string) name.Reference {
	t.Helper()
	r, err := name.ParseReference(s, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// image returns one of these layers, which are text.
func image(t testing.TB, layers ...string) v1.Image {
	t.Helper()
	img := v1.Image(empty.Image)
	for _, l := range layers {
		img = must[v1.Image](t)(mutate.AppendLayers(img, static.NewLayer([]byte(l), types.DockerLayer)))
	}
	return must[v1.Image](t)(mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "amd64", Author: strings.Join(layers, "")[:8], RootFS: must[*v1.ConfigFile](t)(img.ConfigFile()).RootFS}))
}

func pushFixture(t testing.TB, repository string) fixture {
	t.Helper()
	index := must[v1.ImageIndex](t)(registries.Index(repository))
	f := fixture{index: index, digest: must[v1.Hash](t)(index.Digest()).String()}
	check(t, remote.WriteIndex(ref(t, repository+":v1").(name.Tag), index))
	list := must[*v1.IndexManifest](t)(index.IndexManifest())
	for _, digest := range []string{f.digest, list.Manifests[0].Digest.String(), list.Manifests[1].Digest.String()} {
		tag := signer.Tag(digest)
		f.tags = append(f.tags, tag)
		check(t, remote.Write(ref(t, repository+":"+tag).(name.Tag), must[v1.Image](t)(registries.NewAttached(signer.Attach(signer.Key("release").Sign(repository+":v1", digest))))))
	}
	f.part = list.Manifests[0].Digest.String()
	for n, of := range []string{f.digest, f.part} {
		for _, suffix := range []string{".att", ".sbom"} {
			tag := strings.TrimSuffix(f.tags[n], ".sig") + suffix
			f.tags = append(f.tags, tag)
			check(t, remote.Write(ref(t, repository+":"+tag).(name.Tag), image(t, suffix+" of "+of+" in "+repository)))
		}
		desc := must[*v1.Descriptor](t)(remote.Head(ref(t, repository+"@"+of)))
		referrer := mutate.Subject(mutate.MediaType(image(t, "refers to "+of+" in "+repository), types.OCIManifestSchema1), *desc).(v1.Image)
		check(t, remote.Write(ref(t, repository+"@"+must[v1.Hash](t)(referrer.Digest()).String()), referrer))
	}
	return f
}

func raw(t testing.TB, r string) []byte {
	t.Helper()
	got, err := remote.Get(ref(t, r))
	if err != nil {
		t.Errorf("%s: %v", r, err)
		return nil
	}
	return got.Manifest
}

func wantState(t testing.TB, j *Job, want State) {
	t.Helper()
	if j.State != want {
		t.Fatalf("%s is %s, want %s: %v", j.To.Ref, j.State, want, j.Err)
	}
}

// TestCopy holds a copy to be the image, byte for byte, with all that is attached to it and to its parts, at
// registries of two versions.
func TestCopy(t *testing.T) {
	source := newServer(t)
	for version, mirror := range map[string]*server{"distribution 3": newServer(t), "distribution 2.8": olderServer(t)} {
		t.Run(version, func(t *testing.T) {
			s := newStage(t, source, mirror)
			f := pushFixture(t, source.host+"/team/nested/app")
			check(t, remote.WriteIndex(ref(t, source.host+"/team/nested/app:latest").(name.Tag), f.index))
			jobs := s.run(t.Context(), Options{}, s.copy("team/nested/app@"+f.digest, f.digest), s.copy("team/nested/app:v1", f.digest), s.copy("team/nested/app:latest", f.digest))
			for _, j := range jobs {
				wantState(t, j, Copied)
			}
			fallback := strings.Replace(f.digest, ":", "-", 1)
			for _, at := range append(slices.Clone(f.tags), "v1", "latest", fallback+".image") {
				from := at
				if at == fallback+".image" {
					from = "v1"
				}
				if want, got := raw(t, source.host+"/team/nested/app:"+from), raw(t, mirror.host+"/team/nested/app:"+at); !bytes.Equal(want, got) {
					t.Errorf("%s is not what it is at the source:\n%s\n%s", at, got, want)
				}
			}
			for _, of := range []string{f.digest, f.part} {
				at := func(s *server) []v1.Hash {
					list := must[v1.ImageIndex](t)(remote.Referrers(ref(t, s.host+"/team/nested/app@"+of).(name.Digest)))
					return convert.Each(must[*v1.IndexManifest](t)(list.IndexManifest()).Manifests, func(d v1.Descriptor) v1.Hash { return d.Digest })
				}
				if want, got := at(source), at(mirror); len(want) != 1 || !slices.Equal(got, want) {
					t.Errorf("what refers to %s is %s, want %s", of, got, want)
				}
			}
			wantState(t, s.run(t.Context(), Options{}, s.copy("team/nested/app:v1", f.digest))[0], There)
		})
	}
}

// TestLost: what the mirror has lost is sent, and before manifests that name it, though the mirror answers HEAD, mounts and takes manifests as
// if it was there; of images that are there if they are known to lack a part, whatever others have the same layer, and seem to be whole.
func TestLost(t *testing.T) {
	const content = "the base of all images"
	base := must[v1.Hash](t)(static.NewLayer([]byte(content), types.DockerLayer).Digest()).String()
	for _, row := range []struct {
		reason, first string // the repository of the first image
		there         int    // how many of the images the mirror has
		partial       int
		status        int // for the layer, without content
	}{
		{"the first is partial", "app", 2, 0, http.StatusNotFound},
		{"the second is partial", "app", 2, 1, http.StatusOK},
		{"another image seems to be whole", "app", 1, 2, http.StatusPartialContent},
		{"another repository seems to have it", "other", 1, 2, http.StatusPartialContent},
		{"there is no repository", "app", 0, 2, http.StatusNotFound},
		{"its storage cannot be asked from here", "app", 1, 0, http.StatusTemporaryRedirect},
		{"the storage of another repository cannot", "other", 1, 2, http.StatusTemporaryRedirect},
	} {
		t.Run(row.reason, func(t *testing.T) {
			s := newStage(t, newServer(t), newServer(t))
			var copies []policy.Copy
			for i, repository := range []string{row.first, "app"} {
				img := image(t, content, "own "+strconv.Itoa(i))
				digest := must[v1.Hash](t)(img.Digest()).String()
				copies = append(copies, s.copy(repository+"@"+digest, digest))
				copies[i].Partial = i == row.partial
				check(t, remote.Write(ref(t, copies[i].From[0].Ref), img))
				if i < row.there {
					check(t, remote.Write(ref(t, copies[i].To.Ref), img))
				}
			}
			var sent atomic.Bool
			s.mirror.set(func(w http.ResponseWriter, r *http.Request) bool {
				at := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
				switch isManifest := strings.Contains(r.URL.Path, "/manifests/"); {
				case r.Method == http.MethodPut && isManifest && !sent.Load():
					t.Error("a manifest is put before the layer")
				case r.Method == http.MethodPut && r.URL.Query().Get("digest") == base:
					sent.Store(true)
				case r.Method == http.MethodHead && (at == base || isManifest && row.there > 0):
					w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
					w.Header().Set("Docker-Content-Digest", at)
					w.Header().Set("Content-Length", "1")
					return true
				case r.Method == http.MethodPost && r.URL.Query().Get("mount") == base && !sent.Load():
					w.WriteHeader(http.StatusCreated)
					return true
				case at == base && !sent.Load():
					w.Header().Set("Location", "http://127.0.0.1:1/of-the-registry")
					w.Header().Set("Content-Length", "1")
					w.WriteHeader(row.status)
					return true
				}
				return false
			})
			c := New(s.pull, s.push, Options{Images: 1})
			// The one after the other, so that it is known of the layer what the first one says.
			jobs := append(c.Survey(t.Context(), copies[:1]), c.Survey(t.Context(), copies[1:])...)
			if row.partial < 2 && jobs[row.partial].Bytes != int64(len(content)) {
				t.Errorf("%d bytes are to be sent", jobs[row.partial].Bytes)
			}
			c.run(t.Context(), jobs)
			for i, j := range jobs {
				if i >= row.there || i == row.partial {
					wantState(t, j, Copied)
				}
				raw(t, j.To.Ref)
			}
			if !sent.Load() {
				t.Error("the layer is not sent")
			}
		})
	}
}

// TestSharedBlobs: a layer that images of several repositories have goes to the registry once, and is mounted.
func TestSharedBlobs(t *testing.T) {
	registries.Need(t) // the one in this process mounts no layers
	s := newStage(t, newServer(t), newServer(t))
	var copies []policy.Copy
	for i := range 6 {
		copies = append(copies, s.filled(t, fmt.Sprintf("app%d:v1", i), "the base of all images", "own "+strconv.Itoa(i)))
	}
	base := must[v1.Hash](t)(static.NewLayer([]byte("the base of all images"), types.DockerLayer).Digest()).String()
	for _, j := range s.run(t.Context(), Options{}, copies...) {
		wantState(t, j, Copied)
	}
	if n := s.source.count("GET", "/blobs/"+base); n != 1 {
		t.Errorf("the shared layer was read %d times", n)
	}
	n := s.mirror.count("POST", "mount="+base, "from=")
	for i := range 6 {
		n -= s.mirror.count("POST", fmt.Sprintf("/v2/app%d/", i), "mount="+base, fmt.Sprintf("from=app%d", i)) // which asks whether it is there
	}
	if n != 5 {
		t.Errorf("it was mounted %d times, want 5", n)
	}
}

// TestMaxBytes: no more is sent than is allowed, what comes first comes first, and an image for which there is no room is not begun.
func TestMaxBytes(t *testing.T) {
	registries.Need(t)
	large := strings.Repeat("large ", 1000)
	for _, row := range []struct {
		reason string
		layers [][]string
		bound  func(bytes []int64) int64 // of each image, if all are copied
		want   []State
	}{
		{"room for all", [][]string{{"the base", "only in a"}, {"the base", "only in b"}}, func(b []int64) int64 { return b[0] + b[1] }, []State{Copied, Copied}},
		{"a byte too few", [][]string{{"the base", "only in a"}, {"the base", "only in b"}}, func(b []int64) int64 { return b[0] + b[1] - 1 }, []State{Copied, Failed}},
		{"a byte", [][]string{{"the base", "only in a"}, {"the base", "only in b"}}, func([]int64) int64 { return 1 }, []State{Failed, Failed}},
		{"one that is too large keeps no other waiting", [][]string{{large}, {"only in a"}, {"only in b"}}, func(b []int64) int64 { return b[1] + b[2] }, []State{Failed, Copied, Copied}},
		{"a layer of one that is left counts for the next", [][]string{{large, "the base"}, {"the base", "only in b"}}, func(b []int64) int64 { return b[1] }, []State{Failed, Failed}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			s := newStage(t, newServer(t), newServer(t))
			var copies []policy.Copy
			for i, layers := range row.layers {
				copies = append(copies, s.filled(t, fmt.Sprintf("app%d:v1", i), layers...))
			}
			needs := convert.Each(New(s.pull, s.push, Options{}).Survey(t.Context(), copies), func(j *Job) int64 { return j.Bytes })
			bound := row.bound(needs)
			s.mirror.forget()
			var sent, left int64
			for i, j := range s.run(t.Context(), Options{MaxBytes: bound}, copies...) {
				sent += j.Sent()
				if j.State != row.want[i] || (j.State == Failed) != errors.Is(j.Err, ErrLeft) {
					t.Errorf("image %d is %s: %v, want %s", i, j.State, j.Err, row.want[i])
				}
				if j.State != Failed {
					continue
				}
				left += j.Bytes
				if n := s.mirror.count("POST", j.To.Ref[len(s.mirror.host):len(j.To.Ref)-3]+"/") + s.mirror.count("PUT", j.To.Ref[len(s.mirror.host):len(j.To.Ref)-3]+"/"); n != 0 {
					t.Errorf("%d requests begin image %d, for which there is no room", n, i)
				}
			}
			var all int64
			for _, n := range needs {
				all += n
			}
			if sent > bound || sent+left != all {
				t.Errorf("%d bytes are sent of at most %d, and %d left of %d", sent, bound, left, all)
			}
			for i, j := range s.run(t.Context(), Options{MaxBytes: all}, copies...) { // what is there does not count
				if want := map[State]State{Copied: There, Failed: Copied}[row.want[i]]; j.State != want {
					t.Errorf("in the next run, image %d is %s: %v, want %s", i, j.State, j.Err, want)
				}
			}
		})
	}
}

// TestMaxBytesWithoutMounts: where a registry mounts nothing, a layer that several images have is sent for each as long as there is room, and
// an image without room is left without a manifest.
func TestMaxBytesWithoutMounts(t *testing.T) {
	s := newStage(t, newServer(t), newServer(t))
	s.mirror.refuses(http.StatusMethodNotAllowed, func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("mount") })
	var copies []policy.Copy
	for i := range 2 {
		copies = append(copies, s.filled(t, fmt.Sprintf("app%d:v1", i), strings.Repeat("base ", 1000), "only in "+strconv.Itoa(i)))
	}
	var bound, sent int64
	for _, j := range New(s.pull, s.push, Options{}).Survey(t.Context(), copies) {
		bound += j.Bytes
	}
	states := map[State]int{}
	for _, j := range s.run(t.Context(), Options{MaxBytes: bound}, copies...) {
		states[j.State]++
		sent += j.Sent()
		if j.State == Failed && !errors.Is(j.Err, ErrLeft) {
			t.Error(j.Err)
		}
	}
	if states[Copied] != 1 || states[Failed] != 1 || sent > bound {
		t.Errorf("%v, and %d bytes are sent of at most %d", states, sent, bound)
	}
	if n := s.mirror.count("PUT", "/manifests/"); n != 1 {
		t.Errorf("%d manifests are put, want that of one image", n)
	}
	for _, j := range s.run(t.Context(), Options{MaxBytes: 2 * bound}, copies...) {
		if j.State == Failed {
			t.Errorf("with room for it: %v", j.Err)
		}
	}
}

// TestNoCrossMount: where a registry begins an upload instead of mounting, as the specification lets it, each repository gets the layer sent;
// so does a layer without a byte.
func TestNoCrossMount(t *testing.T) {
	s := newStage(t, newServer(t), newServer(t))
	s.mirror.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			r.URL.RawQuery = ""
		}
		return false
	})
	var copies []policy.Copy
	for i := range 4 {
		copies = append(copies, s.filled(t, fmt.Sprintf("app%d:v1", i), "the base of all images", "", "own "+strconv.Itoa(i)))
	}
	base := must[v1.Hash](t)(static.NewLayer([]byte("the base of all images"), types.DockerLayer).Digest()).String()
	for i, j := range s.run(t.Context(), Options{}, copies...) {
		wantState(t, j, Copied)
		at := fmt.Sprintf("/app%d:v1", i)
		if got, want := raw(t, s.mirror.host+at), raw(t, s.source.host+at); !bytes.Equal(got, want) {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
	if n := s.source.count("GET", "/blobs/"+base); n != len(copies) {
		t.Errorf("the shared layer was read %d times, want %d", n, len(copies))
	}
}

// TestWrongLayer: what is not what its digest says, or has gone since it was planned, is refused, and nothing of the image can be pulled.
func TestWrongLayer(t *testing.T) {
	for _, row := range []struct{ what, content, want string }{
		{"another one", "what it shouldn't", "sha256"}, // of the same length
		{"a longer one", "what it should be, and more", "a blob has more bytes than its manifest says"},
		{"a shorter one", "what it", "sha256"},
		{"none", "", "not there"},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := newStage(t, newServer(t), newServer(t))
			c := s.filled(t, "app:v1", "what it should be")
			layer := must[v1.Hash](t)(static.NewLayer([]byte("what it should be"), types.DockerLayer).Digest()).String()
			s.source.set(func(w http.ResponseWriter, r *http.Request) bool {
				isLayer := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+layer)
				if isLayer && row.content == "" {
					w.WriteHeader(http.StatusNotFound)
				} else if isLayer {
					_, _ = io.WriteString(w, row.content)
				}
				return isLayer
			})
			jobs := s.run(t.Context(), Options{}, c)
			wantState(t, jobs[0], Failed)
			if got := jobs[0].Err.Error(); !strings.Contains(got, row.want) {
				t.Errorf("the reason is %q", got)
			}
			for _, at := range []string{"app:v1", "app@" + c.Digest} {
				if _, err := remote.Head(ref(t, s.mirror.host+"/"+at)); err == nil {
					t.Errorf("%s can be pulled", at)
				}
			}
		})
	}
}

// TestTags: a tag that names another image stays, and one that moves meanwhile does not change what is copied.
func TestTags(t *testing.T) {
	s := newStage(t, newServer(t), newServer(t))
	old, planned, moved := image(t, "the old image"), image(t, "the planned image"), image(t, "the moved image")
	for _, r := range []string{s.source.host + "/app:v1", s.source.host + "/app:kept"} {
		check(t, remote.Write(ref(t, r).(name.Tag), planned))
	}
	check(t, remote.Write(ref(t, s.mirror.host+"/app:v1").(name.Tag), old))
	want := must[v1.Hash](t)(planned.Digest())
	jobs := s.run(t.Context(), Options{}, s.copy("app:v1", want.String()))
	wantState(t, jobs[0], Failed)
	if got := jobs[0].Err.Error(); !strings.Contains(got, "--move-tags") || !strings.Contains(got, want.String()[:19]) {
		t.Errorf("the reason is %q", got)
	}
	s.mirror.refuses(http.StatusNotFound, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/tags/list") })
	c := New(s.pull, s.push, Options{})
	c.Survey(t.Context(), []policy.Copy{s.copy("app@"+want.String(), want.String())}) // which takes the repository for missing
	wantState(t, c.Copy(t.Context(), []policy.Copy{s.copy("app:v1", want.String())}, func([]*Job) {})[0], Failed)
	s.mirror.set(func(http.ResponseWriter, *http.Request) bool { return false })
	c = New(s.pull, s.push, Options{})
	c.recently = 0
	jobs = c.Survey(t.Context(), []policy.Copy{s.copy("app:kept", want.String())})
	check(t, remote.Write(ref(t, s.mirror.host+"/app:kept").(name.Tag), old)) // by others, after the survey
	c.run(t.Context(), jobs)
	wantState(t, jobs[0], Failed)
	c = New(s.pull, s.push, Options{MoveTags: true})
	c.recently = 0
	jobs = c.Survey(t.Context(), []policy.Copy{s.copy("app:v1", want.String())})
	check(t, remote.Write(ref(t, s.source.host+"/app:v1").(name.Tag), moved))
	c.run(t.Context(), jobs)
	wantState(t, jobs[0], Copied)
	if got := must[*v1.Descriptor](t)(remote.Head(ref(t, s.mirror.host+"/app:v1"))).Digest; got != want {
		t.Errorf("the tag names %s, want what was planned, %s", got, want)
	}
	if len(jobs[0].Notes) != 1 || !strings.Contains(jobs[0].Notes[0], "was moved to") {
		t.Errorf("the notes are %q", jobs[0].Notes)
	}
}

// TestRefusals: what a mirror says when it does not take an image is in the reason, in one line.
func TestRefusals(t *testing.T) {
	said := func(at string, status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost && r.Method != http.MethodPut || !strings.Contains(r.URL.Path, at) {
				return false
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	const manifests = "/manifests/"
	for _, row := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		want   string
	}{
		{"read-only", said("", 405, `{"errors":[{"code":"UNSUPPORTED","message":"the registry is read-only"}]}`), `405 Method Not Allowed, saying "the registry is read-only"`},
		{"immutable", said(manifests, 409, `{"errors":[{"code":"TAG_INVALID","message":"tag is immutable\u001b[31m"}]}`), `409 Conflict, saying "tag is immutable"`},
		{"a media type", said(manifests, 415, `{"errors":[{"code":"MANIFEST_INVALID","message":"manifest type is not supported"}]}`), `415 Unsupported Media Type, saying "manifest type is not supported"`},
		{"full", said("", 507, `{"errors":[{"code":"UNKNOWN","message":"no space left on device"}]}`), `507 Insufficient Storage, saying "no space left on device"`},
		{"failing", said("", 500, `{"errors":[{"code":"UNKNOWN","message":"unknown error"}]}`), `500 Internal Server Error, saying "unknown error"; try again when it has recovered`},
		{"no credentials", said("", 401, ``), "no credentials to push to it with"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, newServer(t), newServer(t))
			s.filled(t, "app:v1", "an image")
			s.mirror.set(row.answer)
			j := s.impatient().Copy(t.Context(), []policy.Copy{s.copy("app:v1", "")}, func([]*Job) {})[0]
			wantState(t, j, Failed)
			if got := j.Err.Error(); !strings.HasPrefix(got, s.mirror.host+" ") || !strings.Contains(got, row.want) || strings.Contains(got, "\n") {
				t.Errorf("the reason is %q, want %q in it", got, row.want)
			}
			if _, err := remote.Head(ref(t, s.mirror.host+"/app:v1")); err == nil {
				t.Error("the image can be pulled")
			}
			if n := s.mirror.count("PUT", manifests); (n > 0) != (row.name == "immutable" || row.name == "a media type") {
				t.Errorf("%d manifests were put", n)
			}
			if n := s.mirror.count("POST"); row.name == "failing" && n < maxAttempts || row.name == "full" && n >= maxAttempts {
				t.Errorf("%d uploads were tried", n)
			}
		})
	}
}

// impatient returns a Copier that does not rest for long before it tries again.
func (s *stage) impatient() *Copier {
	c := New(s.pull, s.push, Options{})
	c.firstRest = time.Millisecond
	return c
}

// TestThrottled: a registry that answers 429 is asked when it says.
func TestThrottled(t *testing.T) {
	s := newStage(t, newServer(t), newServer(t))
	s.filled(t, "app:v1", "an image")
	for _, at := range []*server{s.source, s.mirror} {
		var n atomic.Int64
		at.set(func(w http.ResponseWriter, r *http.Request) bool {
			if n.Add(1)%9 != 2 {
				return false
			}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
	}
	wantState(t, s.run(t.Context(), Options{}, s.copy("app:v1", ""))[0], Copied)
}

// TestFirstThingsFirst: an image is sent while others are still surveyed, but none before the survey of a more
// important one has ended.
func TestFirstThingsFirst(t *testing.T) {
	registries.Need(t) // the one in this process takes one blob at a time
	s := newStage(t, newServer(t), newServer(t))
	var copies []policy.Copy
	for rank, repository := range []string{"router", "cart", "last"} {
		c := s.filled(t, repository+":v1", "the image of "+repository)
		c.Rank = rank
		copies = append(copies, c)
	}
	started, planned := make(chan struct{}), make(chan struct{})
	var answered, early atomic.Bool
	s.source.set(func(_ http.ResponseWriter, r *http.Request) bool {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/v2/router/blobs/"):
			<-planned
		case strings.HasPrefix(path, "/v2/cart/manifests/v1"):
			<-started
			answered.Store(true)
		case strings.HasPrefix(path, "/v2/last/blobs/") && !answered.Load():
			early.Store(true)
		}
		return false
	})
	c := New(s.pull, s.push, Options{On: func(j *Job) {
		if j.Rank == 0 && j.State == Started {
			close(started)
		}
	}})
	jobs := c.Copy(t.Context(), copies, func(jobs []*Job) {
		if !jobs[1].Wanted || jobs[1].Bytes == 0 {
			t.Error("the cart was not surveyed when the plan was told")
		}
		close(planned)
	})
	for _, j := range jobs {
		wantState(t, j, Copied)
	}
	if early.Load() {
		t.Error("the last image was sent before it was known what the cart needs")
	}
}

// TestVanished: what is gone at one place, or takes too long there, is taken from the next, and an index without one of its parts is
// not half copied.
func TestVanished(t *testing.T) {
	s := newStage(t, newServer(t), newServer(t))
	f := pushFixture(t, s.source.host+"/app")
	c, slow := s.copy("app:v1", f.digest), s.copy("slow:v1", "")
	c.From = append([]mirrors.Location{{Ref: s.source.host + "/gone:v1", Insecure: true}, slow.From[0]}, c.From...)
	s.source.set(func(w http.ResponseWriter, r *http.Request) bool {
		isSlow := strings.HasPrefix(r.URL.Path, "/v2/slow/")
		for isSlow && r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ") // the client leaves
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
		return isSlow
	})
	copier := New(s.pull, s.push, Options{})
	copier.surveyTime = 2 * time.Second
	together := copier.Copy(t.Context(), []policy.Copy{slow, c}, func([]*Job) {})
	wantState(t, together[0], Failed)
	wantState(t, together[1], Copied)
	if got := together[0].Err.Error(); !strings.HasSuffix(got, "it could not be read within 15 minutes") {
		t.Errorf("the reason is %q", got)
	}

	part := must[*v1.IndexManifest](t)(f.index.IndexManifest()).Manifests[1].Digest.String()
	s.source.refuses(http.StatusNotFound, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/manifests/"+part) })
	c = s.copy("app:v1", f.digest)
	c.To.Ref = s.mirror.host + "/other:v1"
	jobs := s.run(t.Context(), Options{}, c)
	wantState(t, jobs[0], Failed)
	if got := jobs[0].Err.Error(); !strings.Contains(got, "linux/arm64") || !strings.Contains(got, "is gone there") {
		t.Errorf("the reason is %q", got)
	}
}

// TestInterrupted: wherever a run is interrupted, nothing is half there, and another goes on.
func TestInterrupted(t *testing.T) {
	registries.Need(t)
	s := newStage(t, newServer(t), newServer(t))
	f := pushFixture(t, s.source.host+"/app")
	for i := range campaign.Times(12, 100) {
		to := fmt.Sprintf("%s/app%d:v1", s.mirror.host, i)
		c := s.copy("app:v1", f.digest)
		c.To.Ref = to
		ctx, cancel := context.WithCancel(t.Context())
		left := int64(rand.IntN(60))
		var seen atomic.Int64
		s.mirror.set(func(http.ResponseWriter, *http.Request) bool {
			if seen.Add(1) == left {
				cancel()
			}
			return false
		})
		s.run(ctx, Options{}, c)
		cancel()
		s.mirror.set(func(http.ResponseWriter, *http.Request) bool { return false })
		if _, err := remote.Head(ref(t, to)); err == nil {
			for _, tag := range f.tags {
				raw(t, fmt.Sprintf("%s/app%d:%s", s.mirror.host, i, tag)) // which fails if it is not there
			}
		}
		again := s.run(t.Context(), Options{}, c)[0]
		if again.State != Copied && again.State != There {
			t.Fatalf("after %d requests, the second run ended with %s: %v", left, again.State, again.Err)
		}
		for _, tag := range append(slices.Clone(f.tags), "v1") {
			if !bytes.Equal(raw(t, s.source.host+"/app:"+tag), raw(t, fmt.Sprintf("%s/app%d:%s", s.mirror.host, i, tag))) {
				t.Errorf("%s differs", tag)
			}
		}
	}
}

// TestTogether: two runs at once both end well.
func TestTogether(t *testing.T) {
	s := newStage(t, newServer(t), newServer(t))
	f := pushFixture(t, s.source.host+"/app")
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			j := s.run(t.Context(), Options{}, s.copy("app:v1", f.digest))[0]
			if j.State != Copied && j.State != There {
				t.Errorf("one ended with %s: %v", j.State, j.Err)
			}
		})
	}
	group.Wait()
	for _, tag := range append(slices.Clone(f.tags), "v1") {
		if got, want := raw(t, s.mirror.host+"/app:"+tag), raw(t, s.source.host+"/app:"+tag); !bytes.Equal(got, want) {
			t.Errorf("%s is %s, want %s", tag, got, want)
		}
	}
}

// TestFull: a mirror that is full when nine tenths have come says so; what came stays, and the next run sends the rest.
func TestFull(t *testing.T) {
	s := newStage(t, newServer(t), newServer(t))
	var copies []policy.Copy
	var all int64
	for i := range 10 {
		small, large := fmt.Sprintf("one of the layers of %d", i), strings.Repeat(fmt.Sprintf("the layer of %d that is large", i), 10_000)
		copies = append(copies, s.filled(t, fmt.Sprintf("app%d:v1", i), small, large))
		all += int64(len(small) + len(large))
	}
	space := all * 9 / 10
	var taken atomic.Int64
	s.mirror.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || taken.Add(r.ContentLength) <= space {
			return false
		}
		taken.Add(-r.ContentLength)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusInsufficientStorage)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNKNOWN","message":"no space left on device"}]}`)
		return true
	})
	failed := 0
	for _, j := range s.impatient().Copy(t.Context(), copies, func([]*Job) {}) {
		if j.State == Copied {
			continue
		}
		failed++
		wantState(t, j, Failed)
		if want := s.mirror.host + ` answers 507 Insufficient Storage, saying "no space left on device"`; j.Err.Error() != want {
			t.Errorf("the reason is %q, want %q", j.Err, want)
		}
		if _, err := remote.Head(ref(t, j.To.Ref)); err == nil {
			t.Errorf("%s can be pulled", j.To.Ref)
		}
	}
	if failed == 0 || failed > 5 {
		t.Errorf("%d of %d images failed, want some of the last", failed, len(copies))
	}
	s.mirror.set(func(http.ResponseWriter, *http.Request) bool { return false })
	s.source.forget()
	var sent int64
	for _, j := range s.run(t.Context(), Options{}, copies...) {
		sent += j.Sent()
		if j.State != Copied && j.State != There {
			t.Errorf("%s is %s: %v", j.To.Ref, j.State, j.Err)
		}
	}
	if sent > all/3 {
		t.Errorf("%d of %d bytes were sent again, want those that had not come", sent, all)
	}
}

// TestInPieces: a mirror that takes no blob in one request gets it in pieces, and is not tried again.
func TestInPieces(t *testing.T) {
	registries.Need(t)
	s := newStage(t, newServer(t), newServer(t))
	for i := range 3 {
		check(t, remote.Write(ref(t, fmt.Sprintf("%s/app%d:v1", s.source.host, i)).(name.Tag), image(t, "a layer", fmt.Sprintf("another one of %d", i))))
	}
	s.mirror.set(refusesWholeBlobs)
	wantState(t, s.run(t.Context(), Options{}, s.copy("app0:v1", ""))[0], Copied)
	if n := s.mirror.count("PATCH"); n != 3 {
		t.Errorf("%d blobs came in pieces, want 3", n)
	}
	s.mirror.forget()
	c := New(s.pull, s.push, Options{Images: 1})
	c.blobs = newBlobs(1)
	for _, j := range c.Copy(t.Context(), []policy.Copy{s.copy("app1:v1", ""), s.copy("app2:v1", "")}, func([]*Job) {}) {
		wantState(t, j, Copied)
	}
	// A registry may refuse a blob for other reasons, so that the first one is tried as a whole.
	if n := s.mirror.count("PUT", "/uploads/"); n != 6 {
		t.Errorf("%d requests ended an upload, want 6: one that was refused, and one for each of five blobs", n)
	}
}

func refusesWholeBlobs(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/uploads/") || r.ContentLength == 0 {
		return false
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusMethodNotAllowed)
	return true
}

// TestUploadElsewhere: blobs go where the registry says, if that is another host, and its credentials do not.
func TestUploadElsewhere(t *testing.T) {
	registries.Need(t)
	for how, refuses := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"whole": func(http.ResponseWriter, *http.Request) bool { return false }, "in pieces": refusesWholeBlobs,
	} {
		t.Run(how, func(t *testing.T) {
			mirror := newServer(t)
			storage := &server{real: mirror.real}
			storage.set(refuses)
			front := httptest.NewServer(storage)
			t.Cleanup(front.Close)
			elsewhere := strings.Replace(strings.TrimPrefix(front.URL, "http://"), "127.0.0.1", "localhost", 1)
			mirror.set(func(w http.ResponseWriter, r *http.Request) bool {
				if user, password, _ := r.BasicAuth(); user != "pusher" || password != "secret" {
					w.Header().Set("WWW-Authenticate", `Basic realm="mirror"`)
					w.WriteHeader(http.StatusUnauthorized)
					return true
				}
				if r.Method != http.MethodPost {
					return false
				}
				proxy := httputil.ReverseProxy{
					Rewrite: func(p *httputil.ProxyRequest) {
						p.SetURL(&url.URL{Scheme: "http", Host: mirror.real})
						p.Out.Host = elsewhere
					},
					ErrorLog: quiet,
				}
				proxy.ServeHTTP(w, r)
				return true
			})
			s := newStage(t, newServer(t), mirror)
			credentials := must[pullsecret.Credentials](t)(pullsecret.Parse([]byte(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, mirror.host, base64.StdEncoding.EncodeToString([]byte("pusher:secret"))))))
			push := s.pull.With(credentials)
			t.Cleanup(push.Close)
			s.push = push
			check(t, remote.Write(ref(t, s.source.host+"/app:v1").(name.Tag), image(t, "a layer", "another one")))
			wantState(t, s.run(t.Context(), Options{}, s.copy("app:v1", ""))[0], Copied)
			if sent := mirror.count("PUT", "/uploads/") + mirror.count("PATCH"); sent != 0 {
				t.Errorf("%d requests went to the registry instead of the storage", sent)
			}
			if n := storage.count("PUT", "/uploads/"); n < 3 {
				t.Errorf("%d uploads ended at the storage, want 3", n)
			}
			if n := storage.count("Basic "); n != 0 {
				t.Errorf("%d requests to the storage had the credentials of the registry", n)
			}
			if n := mirror.count("Basic "); n == 0 {
				t.Error("the registry has not seen its credentials")
			}
		})
	}
}

// TestWebLayers: layers that are elsewhere on the web are in no copy, and the manifest that names them is.
func TestWebLayers(t *testing.T) {
	t.Setenv("REGISTRY_VALIDATION_MANIFESTS_URLS_ALLOW_0", ".*")
	s := newStage(t, newServer(t), newServer(t))
	img := image(t, "a layer of ours")
	const elsewhere = "the layer of another house"
	web := static.NewLayer([]byte(elsewhere), types.DockerForeignLayer)
	img = must[v1.Image](t)(mutate.Append(img, mutate.Addendum{Layer: web, URLs: []string{"https://layers.example.com/base"}, MediaType: types.DockerForeignLayer}))
	check(t, remote.Write(ref(t, s.source.host+"/app:v1").(name.Tag), img))
	j := s.run(t.Context(), Options{}, s.copy("app:v1", ""))[0]
	wantState(t, j, Copied)
	got := raw(t, s.mirror.host+"/app:v1")
	if !bytes.Equal(got, raw(t, s.source.host+"/app:v1")) || !bytes.Contains(got, []byte("https://layers.example.com/base")) {
		t.Errorf("the manifest is %s", got)
	}
	digest := must[v1.Hash](t)(web.Digest()).String()
	if n := s.source.count("GET", "/blobs/"+digest) + s.mirror.count("PUT", "/uploads/", digest[7:]); n != 0 {
		t.Errorf("%d requests are about the layer of the web", n)
	}
}

// TestUnlisted: what is attached to images is found where the list of tags lacks it, as those of some proxies do, has no end, or has
// names that take more memory than an image may.
func TestUnlisted(t *testing.T) {
	for name, list := range map[string]struct{ tags, next string }{
		"not all": {`["v1"]`, ""}, "no end of none": {`[]`, `; rel="next"`}, "no end of one": {`["v1"]`, `; rel="next"`},
		"long names": {`["v1","` + strings.Repeat("x", 2<<20) + `"]`, `; rel="next"`},
	} {
		s := newStage(t, newServer(t), newServer(t))
		f := pushFixture(t, s.source.host+"/app")
		var pages atomic.Int64
		s.source.set(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/tags/list") {
				return false
			}
			w.Header().Set("Link", fmt.Sprintf(`</v2/app/tags/list?n=1000&last=%d>%s`, pages.Add(1), list.next))
			_, _ = io.WriteString(w, `{"name":"app","tags":`+strings.ReplaceAll(list.tags, "x", string('a'+rune(pages.Load()%26)))+`}`)
			return true
		})
		c := New(s.pull, s.push, Options{})
		before := c.room.left.Load()
		wantState(t, c.Copy(t.Context(), []policy.Copy{s.copy("app:v1", f.digest)}, func([]*Job) {})[0], Copied)
		for _, tag := range f.tags {
			raw(t, s.mirror.host+"/app:"+tag) // which fails if it is not there
		}
		if n, taken := pages.Load(), before-c.room.left.Load(); n > maxTags/pageCost || strings.HasPrefix(name, "long") && n > 5 || taken > 64<<10 {
			t.Errorf("%s: %d pages of tags were read, and %d bytes are still taken", name, n, taken)
		}
	}
}

// TestStopsNobody: an image does not come to be at a mirror where nodes would stop for its signatures, while they go on to the source as long as
// the mirror lacks it.
func TestStopsNobody(t *testing.T) {
	const old, now, house = signer.Key("old"), signer.Key("release"), signer.Key("house")
	denies := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	fails := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotImplemented) }
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>")
	}
	noName := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"errors":[{"code":"NAME_UNKNOWN"}]}`)
	}
	keys := func(all ...signer.Key) []signer.Key { return all }
	for _, row := range []struct {
		reason         string
		source, mirror []signer.Key
		policies       []signer.Key // each of other pods; "" for those that are held to none
		sig            http.HandlerFunc
		setup          string
		copied         bool
	}{
		{"the mirror has none", keys(now), nil, keys(now), nil, "", true},
		{"it has the same", keys(now), keys(now), keys(now), nil, "", true},
		{"it was signed anew at the source", keys(now), keys(old), keys(now), nil, "", false},
		{"it was signed once more at the source", keys(old, now), keys(old), keys(now), nil, "", false},
		{"it was signed anew, and tags may be moved", keys(now), keys(old), keys(now), nil, "moves", true},
		{"the house signs beside what it copies", keys(now), keys(now, house), keys(now), nil, "", true},
		{"nodes trust the house", nil, keys(house), keys(house), nil, "", true},
		{"nobody signs it", nil, nil, keys(now), nil, "", false},
		{"nodes require none", keys(now), keys(old), keys(""), nil, "", true},
		{"some pods require another", keys(now), nil, keys("", now, house), nil, "", false},
		{"some pods require two", keys(now, house), nil, keys("", now, house), nil, "", true},
		{"nodes stop there as it is", keys(now), keys(old), keys(now), nil, "held", true},
		{"nodes look for none there", keys(now), nil, keys(now), nil, "unlooked", false},
		{"the mirror denies signatures", nil, nil, keys(""), denies, "", false},
		{"it fails for them", nil, nil, keys(""), fails, "", false},
		{"it has a page", keys(now), nil, keys(""), page, "", false},
		{"it does not know its own name", nil, keys(old), keys(""), noName, "", false},
		{"it has no such repository", keys(now), nil, keys(now), noName, "new", true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			s := newStage(t, newServer(t), newServer(t))
			img := image(t, "what is signed")
			digest := must[v1.Hash](t)(img.Digest()).String()
			check(t, remote.Write(ref(t, s.source.host+"/app:v1").(name.Tag), img))
			signatures := map[signer.Key]signing.Signature{}
			for _, key := range keys(old, now, house) {
				signatures[key] = key.Sign(s.source.host+"/app:v1", digest)
			}
			for at, keys := range map[*server][]signer.Key{s.source: row.source, s.mirror: row.mirror} {
				if len(keys) > 0 {
					attached := signer.Attach(convert.Each(keys, func(k signer.Key) signing.Signature { return signatures[k] })...)
					check(t, remote.Write(ref(t, at.host+"/app:"+signer.Tag(digest)).(name.Tag), must[v1.Image](t)(registries.NewAttached(attached))))
				}
			}
			if row.setup == "held" {
				check(t, remote.Write(ref(t, s.mirror.host+"/app@"+digest), img))
			}
			if row.sig != nil {
				s.mirror.set(func(w http.ResponseWriter, r *http.Request) bool {
					asks := r.Method == http.MethodGet && (strings.HasSuffix(r.URL.Path, ".sig") || row.setup == "new" && strings.Contains(r.URL.Path, "/manifests/"))
					if asks {
						row.sig(w, r)
					}
					return asks
				})
			}
			c := s.copy("app@"+digest, digest)
			c.Readers = policy.Readers{}
			for _, key := range row.policies {
				reader := mirrors.PullSource{Location: c.To, Mirror: true, Attachments: row.setup != "unlooked"}
				if key != "" {
					reader.Trust = &policyfile.Trust{Reference: c.From[0].Ref, Requirements: signing.NewRequirements(signing.Requirement{Type: signing.SigstoreSigned, KeyData: key.PEM()})}
				}
				at := mirrors.OneSpelling(c.To.Ref)
				c.Readers[at] = append(c.Readers[at], reader)
			}
			s.mirror.forget()
			j := s.run(t.Context(), Options{MoveTags: row.setup == "moves"}, c)[0]
			if !row.copied {
				wantState(t, j, Failed)
				if sent := s.mirror.count("PUT") + s.mirror.count("POST"); sent != 0 {
					t.Errorf("%d requests send some of it", sent)
				}
				return
			}
			if j.State != Copied && j.State != There {
				t.Errorf("it is %s: %v", j.State, j.Err)
			}
			s.mirror.set(func(http.ResponseWriter, *http.Request) bool { return false })
			raw(t, s.mirror.host+"/app@"+digest)
		})
	}
}

// TestManyNames: what a mirror has is known once, by whichever of its names a copy goes there. What is read keeps its name.
func TestManyNames(t *testing.T) {
	s := newStage(t, nil, newServer(t))
	port := s.mirror.host[strings.LastIndexByte(s.mirror.host, ':'):]
	c := New(s.pull, s.push, Options{})
	for _, pushes := range []bool{true, false} {
		repositories := map[*repository]bool{}
		for _, host := range []string{"localhost", "LOCALHOST", "LocalHost"} {
			at, err := c.at(t.Context(), mirrors.Location{Ref: host + port + "/team/app:v1", Insecure: true}, pushes)
			if err != nil {
				t.Fatal(err)
			}
			repositories[at.repository] = true
		}
		if want := map[bool]int{true: 1, false: 3}[pushes]; len(repositories) != want {
			t.Errorf("writing %v: %d lists of tags, want %d", pushes, len(repositories), want)
		}
	}
}
