package sync

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// node asks a registry, by the name in the request, where it is not pusher.
const node = "node"

// A reply is that of a registry.
type reply struct {
	status     int
	mediaType  string
	body       []byte
	repository bool // whether it says that the repository is unknown
}

// A front stands before a registry. It lets pusher write, has faults, and knows when something was written.
type front struct {
	host string
	real string
	// fault returns how a request is answered instead, 0 if it is not.
	fault func(who, path string) int
	// wrote is told of each write, after it; nil for nobody.
	wrote func(what string)

	writing sync.Mutex
	mu      sync.Mutex
	known   map[string]reply // to GET, by path
}

func newFront(t testing.TB) *front {
	t.Helper()
	var p *registries.Process
	if campaign.On() { // thousands are too many to be distribution's
		p = registries.StartHere()
		t.Cleanup(func() { _ = p.Stop() }) // which cannot fail
	} else {
		p = registries.Run(t)
	}
	f := &front{real: p.Addr, fault: func(string, string) int { return 0 }, known: map[string]reply{}}
	server := httptest.NewUnstartedServer(f)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	f.host = strings.TrimPrefix(server.URL, "http://")
	return f
}

const noName = 4041 // 404, and that the repository is unknown

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, _, ok := r.BasicAuth()
	writes := r.Method != http.MethodGet && r.Method != http.MethodHead
	if !ok || writes && who != pusher {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if status := f.fault(who, r.URL.Path); status != 0 && !writes {
		if status == noName {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"errors":[{"code":"NAME_UNKNOWN","message":"repository name not known to registry"}]}`)
			return
		}
		w.WriteHeader(status)
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: f.real})
			p.Out.Host = p.In.Host
			p.Out.Header.Del("Authorization")
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	if !writes {
		proxy.ServeHTTP(w, r)
		return
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.StatusCode == http.StatusCreated {
			f.written(r, resp)
		}
		return nil
	}
	proxy.ServeHTTP(w, r)
}

// written forgets what was known of what was written.
func (f *front) written(r *http.Request, resp *http.Response) {
	path := r.URL.Path
	repository, _, _ := strings.Cut(path, "/blobs/uploads/")
	changed := []string{path}
	for _, digest := range []string{r.URL.Query().Get("digest"), r.URL.Query().Get("mount")} {
		changed = append(changed, repository+"/blobs/"+digest)
	}
	if at := strings.LastIndex(path, "/manifests/"); at > 0 {
		changed = append(changed, path[:at]+"/manifests/"+resp.Header.Get("Docker-Content-Digest"))
	}
	f.mu.Lock()
	for _, path := range changed {
		delete(f.known, path)
	}
	f.mu.Unlock()
	if f.wrote != nil {
		f.wrote(r.Method + " " + path)
	}
}

// get returns what a node is answered.
func (f *front) get(t testing.TB, path string) reply {
	t.Helper()
	switch status := f.fault(node, path); status {
	case 0:
	case noName:
		return reply{status: http.StatusNotFound, repository: true}
	default:
		return reply{status: status}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.known[path]; ok {
		return known
	}
	status, header, body := f.ask(t, http.MethodGet, path, "", nil)
	found := reply{status: status, mediaType: header.Get("Content-Type"), body: body}
	f.known[path] = found
	return found
}

// ask asks the registry itself.
func (f *front) ask(t testing.TB, method, path, mediaType string, body []byte) (int, http.Header, []byte) {
	t.Helper()
	return send(t, "http://"+f.real, method, path, mediaType, body)
}

// client is not the default one, whose connections end with every test server.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}

func send(t testing.TB, at, method, path, mediaType string, body []byte) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequest(method, at+path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(pusher, "secret")
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	req.Header["Accept"] = []string{indexType, imageType, dockerType}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, said
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// putBlob puts a blob, by way of the front or not.
func putBlob(t testing.TB, at, repository string, content []byte) bool {
	t.Helper()
	status, header, _ := send(t, at, http.MethodPost, "/v2/"+repository+"/blobs/uploads/", "", nil)
	to, err := url.Parse(header.Get("Location"))
	if err != nil || status != http.StatusAccepted {
		return false
	}
	query := to.Query()
	query.Set("digest", digestOf(content))
	status, _, _ = send(t, at, http.MethodPut, to.Path+"?"+query.Encode(), "application/octet-stream", content)
	return status == http.StatusCreated
}

func putManifest(t testing.TB, at, repository, ref, mediaType string, content []byte) bool {
	t.Helper()
	status, _, _ := send(t, at, http.MethodPut, "/v2/"+repository+"/manifests/"+ref, mediaType, content)
	return status == http.StatusCreated
}
