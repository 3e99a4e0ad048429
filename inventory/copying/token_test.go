package copying

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// A tokenServer grants what it is asked for, as distribution's tokens say it.
type tokenServer struct {
	url  string
	key  *ecdsa.PrivateKey
	cert []byte // DER
	file string // with the certificate

	mu     sync.Mutex
	scopes [][]string // of each token
}

func newTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	s := &tokenServer{key: must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	s.cert = must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, &s.key.PublicKey, s.key))
	s.file = filepath.Join(t.TempDir(), "tokens.crt")
	check(t, os.WriteFile(s.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert}), 0o600))
	front := httptest.NewServer(s)
	t.Cleanup(front.Close)
	s.url = front.URL
	return s
}

// ServeHTTP implements http.Handler.
func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type access struct {
		Type    string   `json:"type"`
		Name    string   `json:"name"`
		Actions []string `json:"actions"`
	}
	granted := []access{}
	scopes := r.URL.Query()["scope"]
	for _, scope := range scopes {
		parts := strings.Split(scope, ":")
		granted = append(granted, access{parts[0], parts[1], strings.Split(parts[2], ",")})
	}
	s.mu.Lock()
	s.scopes = append(s.scopes, scopes)
	s.mu.Unlock()
	encode := func(doc any) string {
		data, _ := json.Marshal(doc) // these can be written
		return base64.RawURLEncoding.EncodeToString(data)
	}
	now := time.Now()
	signed := encode(map[string]any{"typ": "JWT", "alg": "ES256", "x5c": []string{base64.StdEncoding.EncodeToString(s.cert)}}) + "." + encode(map[string]any{
		"iss": "tokens", "sub": "", "aud": "mirror", "exp": now.Add(5 * time.Minute).Unix(), "nbf": now.Add(-time.Minute).Unix(), "iat": now.Unix(), "jti": rand.Text(), "access": granted,
	})
	hash := sha256.Sum256([]byte(signed))
	x, y, _ := ecdsa.Sign(rand.Reader, s.key, hash[:]) // does not fail with this reader
	signature := make([]byte, 64)
	x.FillBytes(signature[:32])
	y.FillBytes(signature[32:])
	_ = json.NewEncoder(w).Encode(map[string]any{"token": signed + "." + base64.RawURLEncoding.EncodeToString(signature), "expires_in": 300}) // the test would fail
}

// want has the registries that are started from now on want tokens.
func (s *tokenServer) want(t *testing.T) {
	for variable, value := range map[string]string{"REGISTRY_AUTH": "token", "REGISTRY_AUTH_TOKEN_REALM": s.url, "REGISTRY_AUTH_TOKEN_SERVICE": "mirror", "REGISTRY_AUTH_TOKEN_ISSUER": "tokens", "REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE": s.file} {
		t.Setenv(variable, value)
	}
}

// TestTokens: a layer is mounted from a repository to another with a token for both, at registries of two versions that
// want tokens.
func TestTokens(t *testing.T) {
	skip.UnlessIntegration(t)
	source := newServer(t)
	tokens := newTokenServer(t)
	tokens.want(t)
	starts := map[string]func(string, io.Writer) (*registries.Process, error){
		"distribution 3": func(dir string, logs io.Writer) (*registries.Process, error) {
			return registries.StartProcess(dir, "", "", logs)
		},
		"distribution 2.8": registries.StartOlderProcess,
	}
	base := "the base of both images"
	digest := must[v1.Hash](t)(static.NewLayer([]byte(base), types.DockerLayer).Digest()).String()
	var copies []string
	for _, repository := range []string{"team/a", "team/b"} {
		check(t, remote.Write(ref(t, source.host+"/"+repository+":v1").(name.Tag), image(t, base, "own "+repository)))
		copies = append(copies, repository+":v1")
	}
	for version, start := range starts {
		t.Run(version, func(t *testing.T) {
			if _, err := registries.OlderBinary(); err != nil && version == "distribution 2.8" {
				skip.Now(t, err)
			}
			p, err := start(t.TempDir(), io.Discard)
			s := newStage(t, source, serve(t, p, err))
			source.forget()
			var to []policy.Copy
			for _, c := range copies {
				to = append(to, s.copy(c, ""))
			}
			for _, j := range s.run(t.Context(), Options{Images: 1}, to...) {
				wantState(t, j, Copied)
			}
			if n := source.count("GET", "/blobs/"+digest); n != 1 {
				t.Errorf("the shared layer was read %d times, want 1", n)
			}
			both := func(s []string) bool { // whichever was surveyed first
				return slices.Equal(s, []string{"repository:team/b:pull,push", "repository:team/a:pull"}) || slices.Equal(s, []string{"repository:team/a:pull,push", "repository:team/b:pull"})
			}
			tokens.mu.Lock()
			defer tokens.mu.Unlock()
			if !slices.ContainsFunc(tokens.scopes, both) {
				t.Errorf("there was no token for both: %q", tokens.scopes)
			}
			tokens.scopes = nil
		})
	}
}
