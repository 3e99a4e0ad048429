package registries

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// A Behaviour is how a registry answers for a host or a reference.
type Behaviour string

// The behaviours of a Front. Hosts and references without one behave honestly.
const (
	Honest      Behaviour = "present"     // serves what was pushed
	Absent      Behaviour = "absent"      // 404
	Denied      Behaviour = "denied"      // 401 with a Basic challenge
	Mismatch    Behaviour = "mismatch"    // 200 with a page of HTML
	Unavailable Behaviour = "unavailable" // 503
	Broken      Behaviour = "broken"      // 500
	Down        Behaviour = "unreachable" // nothing listens
	HeadFails   Behaviour = "head-fails"  // of an image: 500 to HEAD, and served to GET
	Forgotten   Behaviour = "forgotten"   // of an image: HEAD shows it, and GET gets 404
	Exchanged   Behaviour = "exchanged"   // of an image by digest: HEAD shows it, and GET gets Other
	Hollow      Behaviour = "hollow"      // of a repository: serves manifests, and 404 for every blob
	Moved       Behaviour = "moved"       // of a host: wants User and Password, and redirects to another of its own paths
	Private     Behaviour = "private-ca"  // of a host: its certificate is signed by PrivateCA
)

// Other is a manifest that nobody asks for.
const Other = `{"schemaVersion":2,"config":{},"layers":[]}`

// The credentials that a host that is Moved accepts.
const (
	User     = "node"
	Password = "right"
)

// A Front serves one registry under any host name over TLS, each host with
// its own content. It is safe for concurrent use.
type Front struct {
	// CA is the PEM certificate that signs the certificate of every host.
	CA []byte
	// PrivateCA is the one that signs the certificate of every host that is Private.
	PrivateCA []byte

	server  *httptest.Server
	proxy   *httputil.ReverseProxy
	ca      *authority
	private *authority

	mu        sync.Mutex
	registry  *Process
	behaviour map[string]Behaviour // by host, by reference, or by repository
	requests  int
}

// NewFront starts a front for p.
func NewFront(p *Process) (*Front, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	private, err := newAuthority()
	if err != nil {
		return nil, err
	}
	f := &Front{CA: ca.pem, PrivateCA: private.pem, registry: p, ca: ca, private: private, behaviour: map[string]Behaviour{}}
	f.proxy = &httputil.ReverseProxy{Rewrite: f.rewrite, ErrorLog: log.New(io.Discard, "", 0)}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.TLS = &tls.Config{GetCertificate: f.certificate}
	f.server.StartTLS()
	return f, nil
}

func (f *Front) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	b := f.behaviour[hello.ServerName]
	f.mu.Unlock()
	if b == Private {
		return f.private.certificate(hello)
	}
	return f.ca.certificate(hello)
}

// Close ends the front, not the registry behind it.
func (f *Front) Close() { f.server.Close() }

// Kill kills the registry behind the front, which answers 502 from then on.
func (f *Front) Kill() error { return f.process().Stop() }

// Restart starts another registry behind the front, with its files in dir. It is empty.
func (f *Front) Restart(dir string) error {
	p, err := StartProcess(dir, "", "", io.Discard)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registry = p
	return nil
}

func (f *Front) process() *Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.registry
}

// Requests returns the number of requests so far.
func (f *Front) Requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// Set makes a host ("quay.io") or a reference ("quay.io/app:v1") behave.
func (f *Front) Set(key string, b Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behaviour[key] = b
}

// Reset makes everything honest again. Pushed images stay.
func (f *Front) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behaviour = map[string]Behaviour{}
}

// Addr returns the address of a host: the front, or a port on which nothing listens.
func (f *Front) Addr(host string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.behaviour[host] == Down {
		return "127.0.0.1:1"
	}
	return f.server.Listener.Addr().String()
}

// Push pushes an image under a reference, bypassing the front.
func (f *Front) Push(ref string, img v1.Image) error {
	target, err := f.target(ref)
	if err != nil {
		return err
	}
	return remote.Write(target, img)
}

// PushIndex pushes an index, with all that it lists, under a reference.
func (f *Front) PushIndex(ref string, index v1.ImageIndex) error {
	target, err := f.target(ref)
	if err != nil {
		return err
	}
	return remote.WriteIndex(target, index)
}

func (f *Front) target(ref string) (name.Reference, error) {
	host, rest, _ := strings.Cut(ref, "/")
	return name.ParseReference(f.process().Addr+"/"+folder(host)+"/"+rest, name.Insecure)
}

// PushSignatures pushes an attachment of signatures under a reference.
func (f *Front) PushSignatures(ref string, signatures ...signing.Signature) error {
	attachment := signer.Attach(signatures...)
	image, err := NewAttached(attachment)
	if err != nil {
		return err
	}
	return f.Push(ref, image)
}

// IsSet reports whether a host or a reference has been told how to behave.
func (f *Front) IsSet(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.behaviour[key] != ""
}

// HubAPI is the host that serves the API of docker.io.
const HubAPI = "registry-1.docker.io"

// registryOf returns the registry that is asked, by the name that references have for it.
func registryOf(r *http.Request) string {
	if r.Host == HubAPI {
		return "docker.io"
	}
	return r.Host
}

// folder returns where the registry has the content of a host.
func folder(host string) string { return strings.ReplaceAll(strings.ToLower(host), ":", "_") }

func (f *Front) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(&url.URL{Scheme: "http", Host: f.process().Addr})
	if rest := strings.TrimPrefix(r.In.URL.Path, "/v2/"); rest != "" {
		r.Out.URL.Path = "/v2/" + folder(registryOf(r.In)) + "/" + rest
	}
}

func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests++
	b := f.behaviour[registryOf(r)]
	if b == Moved {
		f.mu.Unlock()
		f.serveMoved(w, r)
		return
	}
	if ref := reference(r); f.behaviour[ref] != "" {
		b = f.behaviour[ref]
	}
	if repository := blobRepository(r); f.behaviour[repository] == Hollow {
		b = Hollow
	}
	f.mu.Unlock()
	switch {
	case b == HeadFails && r.Method == http.MethodHead:
		b = Broken
	case b == Forgotten && r.Method == http.MethodGet:
		b = Absent
	}
	switch b {
	case Exchanged:
		if r.Method == http.MethodHead {
			f.proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		fmt.Fprint(w, Other)
	case Broken:
		w.WriteHeader(http.StatusInternalServerError)
	case Hollow:
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry")
	case Absent:
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
	case Denied:
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	case Unavailable:
		refuse(w, http.StatusServiceUnavailable, "UNAVAILABLE", "service unavailable")
	case Mismatch:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintln(w, "<html>Please log in</html>")
	default:
		f.proxy.ServeHTTP(w, r)
	}
}

// serveMoved redirects requests for content to a path that requires the same credentials.
func (f *Front) serveMoved(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	rest := strings.TrimPrefix(r.URL.Path, "/v2/")
	moved, isMoved := strings.CutPrefix(rest, "moved-to/")
	switch {
	case user != User || password != Password:
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	case isMoved:
		r.URL.Path = "/v2/" + moved
		r.Header.Del("Authorization") // the registry behind knows no users
		f.proxy.ServeHTTP(w, r)
	case rest != "":
		http.Redirect(w, r, "/v2/moved-to/"+rest, http.StatusTemporaryRedirect)
	default:
		f.proxy.ServeHTTP(w, r)
	}
}

// reference returns the image that a manifest request is about, "" for others.
func reference(r *http.Request) string {
	repo, tag, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	if !ok {
		return ""
	}
	if strings.Contains(tag, ":") {
		return registryOf(r) + "/" + repo + "@" + tag
	}
	return registryOf(r) + "/" + repo + ":" + tag
}

// blobRepository returns the repository that a blob is asked for in, "" for other requests.
func blobRepository(r *http.Request) string {
	repo, _, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/blobs/sha256:")
	if !ok {
		return ""
	}
	return registryOf(r) + "/" + repo
}

// refuse answers as the distribution registry does.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}

// An authority signs a certificate for whatever host a client asks for.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registries for tests"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{
		cert: cert, key: key, leaves: map[string]*tls.Certificate{},
		pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := hello.ServerName
	if host == "" {
		host = "127.0.0.1"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if leaf := a.leaves[host]; leaf != nil {
		return leaf, nil
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(a.leaves) + 2)), Subject: pkix.Name{CommonName: host},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	leaf := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.key}
	a.leaves[host] = leaf
	return leaf, nil
}
