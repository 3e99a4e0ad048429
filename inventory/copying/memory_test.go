package copying

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	layer, images := int64(campaign.Times(32, 1024))<<20, campaign.Times(6, 10)
	hash := sha256.New()
	_, _ = io.CopyN(hash, zeros{}, layer) // neither end can fail
	digest := "sha256:" + hex.EncodeToString(hash.Sum(nil))
	manifest := func(of string) string {
		return fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":%q,"size":%d}],"annotations":{"of":%q}}`, digest, layer, of)
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
	peak := make(chan uint64)
	done := make(chan struct{})
	go func() {
		var most uint64
		for ticker := time.NewTicker(20 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.Sys)
			select {
			case <-ticker.C:
			case <-done:
				peak <- most
				return
			}
		}
	}()
	jobs := s.run(t.Context(), Options{}, copies...)
	close(done)
	for _, j := range jobs {
		wantState(t, j, Copied)
	}
	most := <-peak
	t.Logf("%d MB sent, at most %d MB of memory; the process, with what it was before: %s", sent.Load()>>20, most>>20, peakRSS())
	if want := layer * int64(images); sent.Load() < want {
		t.Errorf("%d bytes were sent, want %d", sent.Load(), want)
	}
	if most > 150<<20 {
		t.Errorf("it took %d MB", most>>20)
	}
}

func endpointOf(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	front := httptest.NewServer(handler)
	t.Cleanup(front.Close)
	return &server{host: strings.TrimPrefix(front.URL, "http://")}
}

// peakRSS is the most memory that this process has had, as Linux says it.
func peakRSS() string {
	status, _ := os.ReadFile("/proc/self/status") // elsewhere there is none
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}
