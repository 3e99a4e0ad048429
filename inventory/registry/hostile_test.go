package registry

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// tunnel joins the connection of a CONNECT with one to address.
func tunnel(t *testing.T, w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	fmt.Fprint(here, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(there, here) //nolint:errcheck // ends with either side
		there.Close()
	}()
	io.Copy(here, there) //nolint:errcheck // ends with either side
	here.Close()
}

// drip writes one byte at a time until the client leaves.
func drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", ociManifest)
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Millisecond):
			w.Write([]byte(" "))     //nolint:errcheck // the client may have left
			w.(http.Flusher).Flush() // or nothing would leave
		}
	}
}

// endless writes until the client leaves.
func endless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", ociManifest)
	chunk := bytes.Repeat([]byte("[["), 1<<15)
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func bomb(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", ociManifest)
	if r.Method == http.MethodHead {
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.Write(zipped()) //nolint:errcheck // the client may have left
}

// zipped is 16 MiB of nothing, in 16 kB.
var zipped = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 16 {
		zip.Write(zeros) //nolint:errcheck // a Buffer does not fail
	}
	zip.Close() //nolint:errcheck // a Buffer does not fail
	return b.Bytes()
})

func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", ociManifest)
	w.Header().Set("Content-Length", "1000")
	w.Write([]byte("{")) //nolint:errcheck // it is meant to fail
	panic(http.ErrAbortHandler)
}

func hugeHeader(w http.ResponseWriter, _ *http.Request) {
	for i := range 100 {
		w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 10_000))
	}
}

// TestHostileRegistries cost bounded time and memory, and yield a fact with a reason.
func TestHostileRegistries(t *testing.T) {
	zipped()
	head405 := func(get http.HandlerFunc) http.HandlerFunc { return byMethod(status(405, ""), get) }
	for _, tc := range []struct {
		reason  string
		handler http.HandlerFunc
		want    policy.Presence
		detail  string
	}{
		{"an endless body", head405(endless), policy.Unreachable, "mirror.example.com answers with more than 4 MiB, which nodes do not accept as a manifest"},
		{"a gzip bomb", head405(bomb), policy.Unreachable, "more than 4 MiB"},
		{"one byte at a time", head405(drip), policy.Unreachable, "mirror.example.com did not answer within 500ms"},
		{"silence after the ping", byMethod(silent, silent), policy.Unreachable, "mirror.example.com did not answer within 500ms"},
		{"silence", silent, policy.Unreachable, "mirror.example.com did not answer within 500ms"},
		{"a connection that is cut", head405(cutOff), policy.Unreachable, "mirror.example.com closed the connection"},
		{"an endless ping, and an endless manifest after it", endless, policy.Unreachable, "more than 4 MiB"},
		{"a ping that drips", drip, policy.Unreachable, "did not answer within 500ms"},
		{"huge headers", byMethod(hugeHeader, hugeHeader), policy.Unreachable, "mirror.example.com "},
		{"an endless error", head405(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(404)
			endless(w, r)
		}), policy.Absent, "404"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newTLSServer(t, tc.handler)
			timeout := 30 * time.Second // enough to read 4 MiB on a machine with other work
			if strings.Contains(tc.detail, "500ms") {
				timeout = 500 * time.Millisecond
			}
			c := newTestClient(t, s, func(o *clientOptions) { o.Timeout = timeout })
			wantFact(t, probeSparingly(t, c, tagged()), tc.want, tc.detail) // which ends: a limit of 500 ms is one of the details
		})
	}
}

// probeSparingly is a probe that must not take much memory.
func probeSparingly(t *testing.T, c *Client, l mirrors.Location) policy.Fact {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := probe(t, c, l)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("allocated %d MiB", grown>>20)
	}
	return got
}

// TestTooManyValues: what would take a hundred times its text is not decoded, wherever it is served.
func TestTooManyValues(t *testing.T) {
	many := indexOf(strings.Repeat("{},", 1<<20) + "{}")
	byTag := sumOf("another image")
	registry := newShop()
	registry.add("1", ociIndex, many)
	registry.add("part", ociIndex, indexOf(entryOf("linux/amd64", many)))
	registry.add(strings.Replace(signedDigest, ":", "-", 1)+".sig", ociManifest, many)
	registry.add(strings.Replace(byTag, ":", "-", 1), ociIndex, many)
	registry.manifests[signedDigest] = many
	registry.add("page", "text/html", "<script>"+many)
	c := newTestClient(t, newTLSServer(t, registry.serve), reading("linux/amd64"))
	part := mirrors.Location{Ref: host + "/app/web:part"}
	for _, l := range []mirrors.Location{tagged(), part, attachmentOf(t), part.Referrers(signedDigest), part.Referrers(byTag)} {
		wantFact(t, probeSparingly(t, c, l), policy.Inconclusive, "mirror.example.com serves a manifest of more than 10,000 values, which is not looked at")
	}
	wantFact(t, probe(t, c, mirrors.Location{Ref: host + "/app/web:page"}), policy.Mismatch, "which is not an image manifest") // nodes stop there
}

// TestDetailsAreClean: whatever a registry says ends up as one short printable line.
func TestDetailsAreClean(t *testing.T) {
	nasty := "\x1b[31mred\x1b[0m\r\n\x07{\"a\"}\u202e\u0000 " + strings.Repeat("long ", 20_000)
	body := jsonError(t, nasty)
	for _, handler := range []http.HandlerFunc{
		status(404, body),
		status(403, body),
		status(400, body),
		status(503, body),
		serve("text/\x1b[31mhtml "+strings.Repeat("x", 5000), "", "<html>"),
	} {
		c := newTestClient(t, newTLSServer(t, handler))
		got := probe(t, c, tagged())
		if n := len([]rune(got.Detail)); n == 0 || n > wire.MaxDetail {
			t.Errorf("detail has %d runes", n)
		}
		if strings.ContainsFunc(got.Detail, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.Contains(got.Detail, "[31m") {
			t.Errorf("detail = %q", got.Detail)
		}
	}
}

func jsonError(t *testing.T, message string) string {
	t.Helper()
	quoted, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"errors":[{"code":"X","message":%s}]}`, quoted)
}
