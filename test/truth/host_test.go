package truth

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A manner is a way in which a registry can be reached, or not.
type manner string

const (
	trusted   manner = "TLS"
	private   manner = "TLS, CA in certs.d"
	untrusted manner = "TLS, unknown CA"
	clear     manner = "plain http"
	down      manner = "nobody listens"
	hangingUp manner = "hangs up"
	ill       manner = "503 to everything"
	page      manner = "HTML to everything"
	homepage  manner = "404 to /v2/"
	closed    manner = "403 to /v2/"
)

// A door is the authentication that a registry requires.
type door string

const (
	open         door = "for everybody"
	basic        door = "Basic"
	bearer       door = "Bearer"
	bearerForAll door = "Bearer, anybody gets a token"
	bearerBroken door = "Bearer, no token server"
	bearerClear  door = "Bearer, token server without TLS"
	negotiate    door = "Negotiate"
	unannounced  door = "401 without a challenge at /v2/"
	hiding       door = "Bearer, 404 to strangers"
)

// A state is how a registry behaves for one repository.
type state string

const (
	present    state = "present"
	absent     state = "absent"
	denied     state = "401 to this repository"
	forbidden  state = "403 to this repository"
	html       state = "HTML with 200"
	wrong      state = "another image"
	untyped    state = "no content type"
	mistyped   state = "type application/json"
	huge       state = "5 MiB with 200"
	cutShort   state = "cut off in the manifest"
	failing    state = "503"
	hiccup     state = "503, once"
	busy       state = "429, once"
	overrun    state = "429, four times"
	swamped    state = "429, always"
	sparseHere state = "index without the node's part"
	sparse     state = "index without another part"
	foreignOne state = "index without the node's architecture"
	hollow     state = "layer missing"
	hollowHere state = "index whose part for the node lacks a layer"
	onlyAMD64  state = "image for amd64 alone"
	indexAMD64 state = "index for amd64 alone"
	emptyOne   state = "index of nothing"
	noWindows  state = "index without its part for Windows"
	noVariant  state = "index without its part for a variant that no node chooses"
	unnamed    state = "index without its part that names no platform"
	crowded    state = "index of 64 other parts, without that for arm64"
	headAbsent state = "404 to HEAD"
	headUnfit  state = "405 to HEAD"
	headBare   state = "HEAD without a digest"
	headOnly   state = "404 to GET, not to HEAD"
	garbled    state = "half a manifest"
	void       state = "nothing with 200"
	charset    state = "content type with a charset"
	moved      state = "redirect to itself"
	movedAway  state = "redirect to plain http"
)

const (
	user     = "node"
	password = "right"
	token    = "granted"
)

// A host is a registry at its own address on loopback.
type host struct {
	ip, addr string
	manner   manner
	door     door
	places   map[string]state // by repository; absent if missing
	corpus   *corpus
	tokens   string // a token server without TLS
	index    bool   // whether the image is an index
	arch     string // of the node
	// atReview is how the host behaves while a change is reviewed, "" if it behaves the
	// same later.
	atReview  manner
	reviewing atomic.Bool
	// signed is what it holds of signatures, nil for none.
	signed *signedHost

	mu       sync.Mutex
	asked    request // the last
	attempts map[string]int
}

// A request is one for a manifest, by GET.
type request struct {
	at         time.Time
	repository string // with its host
}

// begin forgets past requests, so that the next client meets the host in the same state.
func (h *host) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.attempts = request{}, map[string]int{}
}

// last returns the last request for a manifest, the zero value if there was none.
func (h *host) last() request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// start listens until the test ends. The address is the scenario's own, so that a
// host that is down stays down.
func (h *host) start(t *testing.T, w *world) {
	t.Helper()
	if h.manner == down {
		return
	}
	listener, err := net.Listen("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	ca := map[manner]*authority{private: w.private, untrusted: w.unknown}[h.manner]
	if ca == nil {
		ca = w.ca
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{ca.leaf(t, h.ip)}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if h.manner == clear {
			_ = server.Serve(listener) // ends with Close
			return
		}
		_ = server.ServeTLS(listener, "", "")
	}()
	t.Cleanup(func() {
		_ = server.Close() // of a listener that may be closed already
		<-served
	})
}

// ServeHTTP implements http.Handler.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	manner := h.manner
	if h.atReview != "" && h.reviewing.Load() {
		manner = h.atReview
	}
	switch {
	case manner == hangingUp:
		hangUp(w)
	case manner == ill:
		w.WriteHeader(http.StatusServiceUnavailable)
	case manner == closed && h.atReview != "":
		w.WriteHeader(http.StatusForbidden)
	case manner == page:
		writeHTML(w)
	case r.URL.Path == "/token":
		grant(w, r, h.door == bearerForAll)
	case r.URL.Path == "/v2/":
		h.servePing(w, r)
	case h.admits(r):
		h.serveContent(w, r)
	case h.door == hiding && r.Header.Get("Authorization") != "":
		w.WriteHeader(http.StatusNotFound)
	default:
		h.challenge(w)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func writeHTML(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintln(w, "<html>Please log in</html>")
}

func (h *host) servePing(w http.ResponseWriter, r *http.Request) {
	switch {
	case h.manner == homepage:
		w.WriteHeader(http.StatusNotFound)
	case h.manner == closed:
		w.WriteHeader(http.StatusForbidden)
	case h.door == open, h.door == unannounced, h.admits(r):
	default:
		h.challenge(w)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func (h *host) challenge(w http.ResponseWriter) {
	scheme := "https"
	if h.manner == clear {
		scheme = "http"
	}
	switch h.door {
	case basic, unannounced:
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
	case bearer, bearerForAll, hiding:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s://%s/token",service="registry"`, scheme, h.addr))
	case bearerBroken:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s://%s/no-token",service="registry"`, scheme, h.addr))
	case bearerClear:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="registry"`, h.tokens))
	case negotiate:
		w.Header().Set("WWW-Authenticate", "Negotiate")
	}
}

// grant gives a token to clients that know the password, or to all. Others get a useless
// one, as from distribution's token servers.
func grant(w http.ResponseWriter, r *http.Request, toAll bool) {
	name, pass, ok := r.BasicAuth()
	value := "anonymous"
	switch {
	case ok && (name != user || pass != password):
		w.WriteHeader(http.StatusUnauthorized)
		return
	case ok, toAll:
		value = token
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"token":%q,"expires_in":300}`, value)
}

func (h *host) admits(r *http.Request) bool {
	switch h.door {
	case basic, negotiate, unannounced:
		name, pass, _ := r.BasicAuth()
		return name == user && pass == password
	case bearer, bearerForAll, bearerBroken, bearerClear, hiding:
		return r.Header.Get("Authorization") == "Bearer "+token
	default:
		return true
	}
}

// serveContent answers for a manifest or a blob.
func (h *host) serveContent(w http.ResponseWriter, r *http.Request) {
	repository, kind, id := split(r.URL.Path)
	if kind == "blobs" && h.signed != nil {
		if blob, ok := h.signed.blob(id); ok {
			_, _ = w.Write(blob) // the client may leave
			return
		}
	}
	if kind != "manifests" {
		h.forward(w, r, h.repository(repository), kind, id)
		return
	}
	moving, isMoved := strings.CutPrefix(repository, "moved-to/")
	if isMoved && h.signed != nil && strings.HasSuffix(id, ".sig") {
		a, ok := h.signed.attachment(signedWell, h.addr+"/"+moving, strings.Replace(strings.TrimSuffix(id, ".sig"), "-", ":", 1))
		h.signed.write(w, a, ok, signedWell)
		return
	}
	if isMoved {
		h.forward(w, r, h.repository(moving), kind, id)
		return
	}
	if h.signed != nil && strings.HasSuffix(id, ".sig") && h.places[repository] != "" {
		h.signed.serve(h, w, r, repository, id)
		return
	}
	h.serveManifest(w, r, repository, id, h.note(r, repository))
}

// split splits the path of a request into its parts.
func split(path string) (repository, kind, id string) {
	rest := strings.TrimPrefix(path, "/v2/")
	for _, kind := range []string{"manifests", "blobs"} {
		if repository, id, ok := strings.Cut(rest, "/"+kind+"/"); ok {
			return repository, kind, id
		}
	}
	return rest, "", ""
}

// note keeps a record of a request, and returns how many there were before it.
func (h *host) note(r *http.Request, repository string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Method == http.MethodGet {
		h.asked = request{time.Now(), h.addr + "/" + repository}
	}
	h.attempts[repository]++
	return h.attempts[repository] - 1
}

func (h *host) serveManifest(w http.ResponseWriter, r *http.Request, repository, id string, before int) {
	head := r.Method == http.MethodHead
	forward := func() { h.forward(w, r, h.repository(repository), "manifests", id) }
	switch h.places[repository] {
	case denied:
		w.WriteHeader(http.StatusUnauthorized)
	case forbidden:
		w.WriteHeader(http.StatusForbidden)
	case html:
		writeHTML(w)
	case wrong:
		h.forward(w, r, otherImage, "manifests", tags[0])
	case untyped:
		w.Header()["Content-Type"] = nil                                             // otherwise net/http would guess one
		h.forwardWith(w, r, h.repository(repository), "manifests", id, retyped(nil)) //nolint:bodyclose // retyped makes no request
	case mistyped:
		h.forwardWith(w, r, h.repository(repository), "manifests", id, retyped([]string{"application/json"})) //nolint:bodyclose // as above
	case huge:
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, strings.Repeat("<p>much</p>", 5<<20/11+1)) //nolint:errcheck // the client may leave
	case cutShort:
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "{") //nolint:errcheck // the client may leave
		hangUp(w)
	case failing:
		w.WriteHeader(http.StatusServiceUnavailable)
	case hiccup:
		interrupted(w, before < 1, http.StatusServiceUnavailable, forward)
	case busy:
		interrupted(w, before < 1, http.StatusTooManyRequests, forward)
	case overrun:
		interrupted(w, before < 4, http.StatusTooManyRequests, forward)
	case swamped:
		interrupted(w, true, http.StatusTooManyRequests, forward)
	case headAbsent:
		interrupted(w, head, http.StatusNotFound, forward)
	case headUnfit:
		interrupted(w, head, http.StatusMethodNotAllowed, forward)
	case headOnly:
		interrupted(w, !head, http.StatusNotFound, forward)
	case headBare:
		if !head {
			forward()
		}
	case void:
	case charset:
		h.forwardWith(w, r, h.repository(repository), "manifests", id, withCharset)
	case garbled:
		h.forwardWith(w, r, h.repository(repository), "manifests", id, halved)
	case moved:
		http.Redirect(w, r, "/v2/moved-to/"+repository+"/manifests/"+id, http.StatusTemporaryRedirect)
	case movedAway:
		http.Redirect(w, r, "http://"+h.corpus.addr+"/v2/"+h.repository(repository)+"/manifests/"+id, http.StatusTemporaryRedirect)
	default:
		forward()
	}
}

// interrupted answers with status when it is time to, and otherwise goes on.
func interrupted(w http.ResponseWriter, now bool, status int, goOn func()) {
	if !now {
		goOn()
		return
	}
	w.Header().Set("Retry-After", "0") // otherwise the runtime waits two seconds or more
	w.WriteHeader(status)
}

// repository returns where the content of a repository of this host is.
func (h *host) repository(repository string) string {
	whole := wholeImage
	if h.index {
		whole = wholeIndex
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[h.arch]
	switch h.places[repository] {
	case absent, "":
		return nothing
	case hollow:
		return hollowImage
	case hollowHere:
		return hollowIndex(h.arch)
	case sparseHere:
		return sparseIndex(h.arch)
	case sparse:
		return sparseIndex(other)
	case foreignOne:
		return foreignIndex
	case emptyOne, noWindows, noVariant, unnamed, crowded:
		return oddIndexes[h.places[repository]].repository
	case onlyAMD64:
		return partOfIndex
	case indexAMD64:
		return smallIndex
	case wrong:
		return otherImage
	default:
		return whole
	}
}

func (h *host) forward(w http.ResponseWriter, r *http.Request, repository, kind, id string) {
	h.forwardWith(w, r, repository, kind, id, nil)
}

// forwardWith forwards a request to the corpus, and its answer back through change.
func (h *host) forwardWith(w http.ResponseWriter, r *http.Request, repository, kind, id string, change func(*http.Response) error) {
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "http", Host: h.corpus.addr, Path: "/v2/" + repository + "/" + kind + "/" + id}
			p.Out.Host = ""
		},
		ModifyResponse: change,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	proxy.ServeHTTP(w, r)
}

// retyped replaces the content type.
func retyped(contentType []string) func(*http.Response) error {
	return func(resp *http.Response) error {
		resp.Header["Content-Type"] = contentType
		return nil
	}
}

func withCharset(resp *http.Response) error {
	resp.Header.Set("Content-Type", resp.Header.Get("Content-Type")+"; charset=utf-8")
	return nil
}

// halved cuts a manifest in half. The header still describes the whole.
func halved(resp *http.Response) error {
	if resp.Request.Method == http.MethodHead {
		return nil
	}
	whole, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body.Close()
	half := string(whole[:len(whole)/2])
	resp.Body = io.NopCloser(strings.NewReader(half))
	resp.ContentLength = int64(len(half))
	resp.Header.Set("Content-Length", fmt.Sprint(len(half)))
	return nil
}
