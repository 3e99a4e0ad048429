// Package release puts a release of OpenShift on a real registry, for tests: a release image with its manifests, the
// images of its payload, all of them signed, and the GPG signature of the release image.
//
//	s := release.Mirrored(t, 190)
//	apply(s.Objects(s.Signed)) // a cluster that is offered the release, and pulls it from s.Mirror
//	s.Without(s.PartOf("rhel-coreos", "layer").Path)
package release

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// Where OpenShift's releases are at home, and the version of the one that is made here.
const (
	Source        = "quay.io/openshift-release-dev/ocp-release"
	PayloadSource = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
	Version       = "4.21.3"
)

// A Stage is a registry with a release, behind a proxy that hides parts of it and writes down what it is asked,
// and a cluster that may be updated to the release.
type Stage struct {
	// Mirror is the host of the proxy, which speaks HTTP.
	Mirror string
	// Digest is that of the release image, Signed its GPG signature.
	Digest string
	Signed []byte
	// Releases and Images are the repositories of the release image and of the payload where they are at home.
	Releases, Images string
	// Parts are what can be taken away.
	Parts []Part

	key      string // armored, of the last of signings
	signings int
	payload  map[string]string // the files of the release image's last layer

	mu   sync.Mutex
	gone map[string]bool
	// altered replaces a text in the answer under a path.
	altered map[string][2]string
	// refused is the status that everything is answered with, 0 for none.
	refused int
	asked   []string
}

// A Part of the image Name can be taken away: What says "image", "child", "layer" or "signature". Path is the end of the
// path of requests for it.
type Part struct{ What, Name, Path string }

// Mirrored puts a release of n images on a registry that is a mirror.
func Mirrored(t testing.TB, n int) *Stage {
	t.Helper()
	s := newStage(t)
	s.Releases, s.Images = Source, PayloadSource
	s.push(t, n)
	return s
}

// AtHome puts a release of n images on a registry that is no mirror, but where they are at home.
func AtHome(t testing.TB, n int) *Stage {
	t.Helper()
	s := newStage(t)
	s.Releases, s.Images = s.Mirror+"/openshift/release-images", s.Mirror+"/openshift/release"
	s.push(t, n)
	return s
}

func newStage(t testing.TB) *Stage {
	t.Helper()
	process := testregistries.Run(t)
	s := &Stage{gone: map[string]bool{}, altered: map[string][2]string{}}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: process.Addr})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewServer(s.over(proxy))
	t.Cleanup(server.Close)
	s.Mirror = strings.TrimPrefix(server.URL, "http://")
	return s
}

// over serves the answers of next, except hidden and altered ones.
func (s *Stage) over(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hidden, altered, refused := s.noted(r)
		switch {
		case refused != 0:
			w.WriteHeader(refused)
		case altered != nil && r.Method == http.MethodGet:
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			fmt.Fprint(w, strings.ReplaceAll(answer.Body.String(), altered[0], altered[1]))
		case hidden:
			unknown(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// noted notes a request, and returns how to answer it.
func (s *Stage) noted(r *http.Request) (hidden bool, altered []string, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	for path := range s.gone {
		hidden = hidden || strings.HasSuffix(r.URL.Path, path)
	}
	if a, is := s.altered[r.URL.Path]; is {
		altered = a[:]
	}
	return hidden, altered, s.refused
}

func unknown(w http.ResponseWriter, r *http.Request) {
	code := "MANIFEST_UNKNOWN"
	if strings.Contains(r.URL.Path, "/blobs/") {
		code = "BLOB_UNKNOWN"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"unknown"}]}`, code)
}

// Without hides what has these ends of paths, and nothing else, and forgets what was asked.
func (s *Stage) Without(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.asked = map[string]bool{}, nil
	for _, path := range paths {
		s.gone[path] = true
	}
}

// Refuse answers everything with a status, as a registry in trouble does; 0 ends it.
func (s *Stage) Refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = status
}

// Alter replaces a text in the answer under a path.
func (s *Stage) Alter(path, old, by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.altered[path] = [2]string{old, by}
}

// Requests returns what was asked since Without: methods with paths.
func (s *Stage) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// PartOf returns a part of an image ("release" is the release image).
func (s *Stage) PartOf(name, what string) Part {
	i := slices.IndexFunc(s.Parts, func(p Part) bool { return p.Name == name && p.What == what })
	return s.Parts[i]
}
