package serve

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// deployments returns as many, of an image each, separated by commas.
func deployments(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = strings.ReplaceAll(clitest.CartDeployment, "cart", fmt.Sprint("cart", i))
	}
	return strings.Join(items, ",")
}

// holdsAll serves every image there is.
func holdsAll(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v2/" {
		return
	}
	const mediaType = "application/vnd.oci.image.manifest.v1+json"
	config := `{"os":"linux","architecture":"amd64"}`
	if strings.Contains(r.URL.Path, "/blobs/") {
		fmt.Fprint(w, config)
		return
	}
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"digest":%q,"size":%d},"layers":[]}`, mediaType, digest.FromString(config), len(config))
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest.FromString(manifest).String())
	fmt.Fprint(w, manifest)
}

// TestManyReviewsAtOnce: 50 reviews of a change to 500 images that are all known cost
// no request, and none of them fails. Times and memory are reported, not asserted: the
// machine may be busy.
func TestManyReviewsAtOnce(t *testing.T) {
	var asked atomic.Int32
	flags := clitest.RegistryAt(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		holdsAll(w, r)
	})
	g := guardOf(t, deployments(500)+","+clitest.Worker, io.Discard, flags...)
	if first := askGuard(t, g, clitest.ShopMirror, 30*time.Second); !first.Allowed {
		t.Fatal(first.Result.Message)
	}
	cold := asked.Load()
	took := make([]time.Duration, 50)
	var all sync.WaitGroup
	for i := range took {
		all.Go(func() {
			start := time.Now()
			// A dry run, as here no change comes into force: many such of one sender are slowed down.
			answer := askGuard(t, g, clitest.ShopMirror, 30*time.Second, dryRun)
			took[i] = time.Since(start)
			if !answer.Allowed || !strings.Contains(strings.Join(answer.Warnings, "\n"), "reroutes 500 of 500 images: all verified") {
				t.Errorf("%v %q", answer.Result, answer.Warnings)
			}
		})
	}
	all.Wait()
	if n := asked.Load() - cold; n > 0 {
		t.Errorf("%d requests for what is known", n)
	}
	slices.Sort(took)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("half after %v, all after %v; %d MiB from the system", took[25], took[49], memory.Sys>>20)
}

// TestTooMuchForOneDeadline: of 2,000 images behind two mirrors a registry tells of
// some, and is silent then. The answer comes before the API server gives up, and says
// how far it got.
func TestTooMuchForOneDeadline(t *testing.T) {
	var asked atomic.Int32
	flags := clitest.RegistryAt(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 200 {
			<-r.Context().Done()
			return
		}
		holdsAll(w, r)
	})
	g := guardOf(t, deployments(2_000), io.Discard, flags...)
	const timeout = 6 * time.Second // less than what the guard waits for one request, and its reserve
	start := time.Now()
	answer := askGuard(t, g, strings.Replace(clitest.ShopMirror, `"example.com/shop"`, `"example.com/shop","other.example.com/shop"`, 1), timeout)
	t.Logf("the answer came after %v of %v", time.Since(start).Round(time.Millisecond), timeout)
	// One that comes too late says that deciding took too long.
	if answer.Allowed || !strings.Contains(answer.Result.Message, " of 2,000 looked up when time was up; the others follow. Apply again in 10 s.") {
		t.Errorf("%v: %s", answer.Allowed, answer.Result.Message)
	}
	if n := nearDeadline(t, g); n != 1 {
		t.Errorf("%d reviews count as close to their deadline, want 1", n)
	}
}

// TestEnormousMirrorSets are answered in time, in few words and with bounded memory. The time is
// that of processors: what the machine does for others meanwhile does not count.
func TestEnormousMirrorSets(t *testing.T) {
	entries := make([]string, 30_000)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"source":"quay.example.com/shop/cart%d","mirrors":["example.com/m%d"]}`, i, i)
	}
	mirrors := make([]string, 10_000)
	for i := range mirrors {
		mirrors[i] = fmt.Sprintf("%q", fmt.Sprintf("example.com/m%d", i))
	}
	long := "example.com/" + strings.Repeat("x", 1<<20)
	for _, tc := range []struct {
		reason, entries string
	}{
		{"30,000 entries", strings.Join(entries, ",")},
		{"10,000 mirrors of one source", `{"source":"quay.example.com/shop","mirrors":[` + strings.Join(mirrors, ",") + `]}`},
		{"a mirror of 1 MB", fmt.Sprintf(`{"source":"quay.example.com/shop","mirrors":[%q],"mirrorSourcePolicy":"NeverContactSource"}`, long)},
		{"a source of 1 MB", fmt.Sprintf(`{"source":%q,"mirrors":["example.com/shop"]}`, long)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			flags := clitest.RegistryAt(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v2/" && r.Host == "example.com" {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				holdsAll(w, r)
			})
			g := guardOf(t, deployments(100), io.Discard, flags...)
			object := `{"apiVersion":"config.openshift.io/v1","kind":"ImageTagMirrorSet","metadata":{"name":"shop"},"spec":{"imageTagMirrors":[` + tc.entries + `]}}`
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start, used := time.Now(), processorTime(t)
			answer := askGuard(t, g, object, 30*time.Second)
			used = processorTime(t) - used
			if used >= 30*time.Second {
				t.Errorf("the answer took %v of processors", used)
			}
			runtime.ReadMemStats(&after)
			if grown := int64(after.Sys) - int64(before.Sys); grown > 512<<20 {
				t.Errorf("%d MiB more from the system", grown>>20)
			}
			if !answer.Allowed && len(answer.Result.Message) > 16<<10 {
				t.Errorf("the message has %d bytes", len(answer.Result.Message))
			}
			t.Logf("allowed %v, %v, %v of processors: %.300s", answer.Allowed, time.Since(start).Round(time.Millisecond), used.Round(time.Millisecond), answer.Result)
		})
	}
}

// processorTime returns how much of processors this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestCanary: a password goes to the host that its entry names, and turns up nowhere
// else: in no answer, log line, metric or note.
func TestCanary(t *testing.T) {
	var mu sync.Mutex
	shown := map[string]bool{} // whether a host was shown anything
	flags := clitest.RegistryAt(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		shown[r.Host] = shown[r.Host] || r.Header.Get("Authorization") != ""
		mu.Unlock()
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}`)
	})
	auth := base64.StdEncoding.EncodeToString([]byte("user:canary"))
	secret := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"auths":{"example.com":{"auth":%q},"bad.example.com":{"auth":"canary%%"}}}`, auth))
	items := clitest.CartDeployment + fmt.Sprintf(`,{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"openshift-config","name":"pull-secret"},"data":{".dockerconfigjson":%q}}`, secret)
	var logs bytes.Buffer
	g := guardOf(t, items, &logs, flags...)
	answer := askGuard(t, g, strings.Replace(clitest.ShopMirror, `"example.com/shop"`, `"example.com/shop","other.example.com/shop"`, 1), 30*time.Second)
	mu.Lock()
	defer mu.Unlock()
	if !shown["example.com"] || shown["other.example.com"] {
		t.Errorf("credentials were shown to: %v", shown)
	}
	if answer.Allowed || !strings.Contains(answer.Result.Message, `example.com answers 401 to the entry "example.com" of the global pull secret`) {
		t.Errorf("%v: %s", answer.Allowed, answer.Result.Message)
	}
	metrics := httptest.NewRecorder()
	promhttp.HandlerFor(g.registry, promhttp.HandlerOpts{}).ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for where, text := range map[string]string{
		"the answer": answer.String(), "the log": logs.String(), "the metrics": metrics.Body.String(),
		"the notes": strings.Join(g.registries.Notes(), "\n"),
	} {
		if text == "" || strings.Contains(text, "canary") || strings.Contains(text, auth) {
			t.Errorf("%s is empty, or has the password in it: %.300s", where, text)
		}
	}
}
