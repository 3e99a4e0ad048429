package copying

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
)

// zeros is a layer of any length that takes no memory.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestMemory: however large layers are, they are nowhere as a whole. Real registries would keep in memory, or
// write, what is sent; these two know nothing but one image.
func TestMemory(t *testing.T) {
	layer, images := int64(campaign.Times(32, 1024))<<20, int64(campaign.Times(6, 10))
	hash := sha256.New()
	_, _ = io.CopyN(hash, zeros{}, layer) // neither end can fail
	digest := "sha256:" + hex.EncodeToString(hash.Sum(nil))
	manifest := func(of string) string {
		return fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":%q,"size":%d}],"annotations":{"of":%q}}`, digest, layer, of+strings.Repeat("x", 1<<16))
	}
	var sent atomic.Int64
	source, mirror := endpointOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/v2/":
		case strings.HasSuffix(path, "/manifests/v1"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = io.WriteString(w, manifest(path))
		case strings.HasSuffix(path, "/blobs/"+digest):
			_, _ = io.CopyN(w, zeros{}, layer)
		case strings.Contains(path, "/blobs/"):
			_, _ = io.WriteString(w, "{}")
		default:
			http.NotFound(w, r)
		}
	}), endpointOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Path)
		switch r.Method {
		case http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		case http.MethodPut:
			n, _ := io.Copy(io.Discard, r.Body)
			sent.Add(n)
			w.WriteHeader(http.StatusCreated)
		default:
			if r.URL.Path != "/v2/" {
				http.NotFound(w, r)
			}
		}
	})
	s := newStage(t, source, mirror)
	var copies []policy.Copy
	for i := range images {
		copies = append(copies, s.copy(fmt.Sprintf("app%d:v1", i), ""))
	}
	var jobs []*Job
	c := New(s.pull, s.push, Options{})
	before := c.room.left.Load()
	most := peakOf(func() { jobs = c.Copy(t.Context(), copies, func([]*Job) {}) })
	for _, j := range jobs {
		wantState(t, j, Copied)
	}
	if taken := before - c.room.left.Load(); taken > images*10*elementCost {
		t.Errorf("%d bytes are still taken for %d images that are copied", taken, images)
	}
	t.Logf("%d MB sent, at most %d MB of memory", sent.Load()>>20, most>>20)
	if want := layer * images; sent.Load() < want {
		t.Errorf("%d bytes were sent, want %d", sent.Load(), want)
	}
	if most > 32<<20 {
		t.Errorf("it took %d MB", most>>20)
	}
}

// peakOf returns the most memory that was in use while something was done, garbage aside.
func peakOf(do func()) uint64 {
	peak, done := make(chan uint64), make(chan struct{})
	go func() {
		var most uint64
		for ticker := time.NewTicker(20 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-ticker.C:
			case <-done:
				peak <- most
				return
			}
		}
	}()
	do()
	close(done)
	return <-peak
}

// TestHostileMemory: however many images there are, and whatever they look like, they take no more memory than a pod has, and those
// for which there is none are left for another run.
func TestHostileMemory(t *testing.T) {
	const pod = 460 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(pod))
	var list []string
	for i := range maxBlobs - 1 {
		list = append(list, fmt.Sprintf(`{"digest":"sha256:OF IMAGE%056x"}`, i))
	}
	all := strings.Join(list, ",")
	blobs := func(image string) string {
		return strings.ReplaceAll(all, "OF IMAGE", fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(image))))
	}
	for what, layers := range map[string]string{
		"long": `],"of":["` + strings.Repeat("x", 4_000_000) + `"`, "numbers": "0" + strings.Repeat(",0", 2_000_000), "objects": "{}" + strings.Repeat(",{}", 1_000_000), "blobs": "",
	} {
		t.Run(what, func(t *testing.T) {
			both := endpointOf(t, func(w http.ResponseWriter, r *http.Request) { // both have all of them
				w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
				switch {
				case r.URL.Path == "/v2/":
				case !strings.HasSuffix(r.URL.Path, "/manifests/v1"):
					http.NotFound(w, r)
				default:
					_, _ = io.WriteString(w, `{"layers":[`)
					_, _ = io.WriteString(w, cmp.Or(layers, blobs(r.URL.Path)))
					_, _ = io.WriteString(w, `]}`)
				}
			})
			s := newStage(t, both, both)
			var copies []policy.Copy
			for i := range 600 {
				copies = append(copies, s.copy(fmt.Sprintf("app%d:v1", i), ""))
			}
			if layers != "" { // what one takes for a while is more than enough
				copies = copies[:surveysAtOnce]
			}
			most := peakOf(func() { New(s.pull, s.push, Options{}).Survey(t.Context(), copies) })
			if most > pod {
				t.Errorf("it took %d MB", most>>20)
			}
		})
	}
}

func endpointOf(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	front := httptest.NewServer(handler)
	t.Cleanup(front.Close)
	return &server{host: strings.TrimPrefix(front.URL, "http://")}
}
