package copying

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// places name the place of an upload otherwise than the registry behind them.
type places struct {
	location func(*url.URL) // of the registry, as a path, to what clients get
	back     func(*url.URL) // and back
	// refuses answers a request instead of the registry, and says so; nil for none.
	refuses func(http.ResponseWriter, *http.Request) bool
}

const (
	ours    = "/artifacts-uploads/namespaces/"
	uploadQ = "upload"
)

// serve passes requests on to s, which wants tokens for each.
func (p places) serve(s *server) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if p.refuses != nil && p.refuses(w, r) {
			return true
		}
		proxy := httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(&url.URL{Scheme: "http", Host: s.real})
				p.back(r.Out.URL)
				r.Out.Host = r.In.Host
			},
			ModifyResponse: func(resp *http.Response) error {
				at, err := resp.Location()
				if err != nil || !strings.Contains(at.Path, "/uploads/") {
					return nil
				}
				at.Scheme, at.Host = "", ""
				p.location(at)
				resp.Header.Set("Location", at.String())
				return nil
			},
			ErrorLog: quiet,
		}
		proxy.ServeHTTP(w, r)
		return true
	}
}

// TestUploadPlaces: a blob goes where the registry says, whatever the path of that is like, and with what opens the
// repository, as the mirror wants tokens for each request.
func TestUploadPlaces(t *testing.T) {
	skip.UnlessIntegration(t)
	source := newServer(t)
	check(t, remote.Write(ref(t, source.host+"/team/app:v1").(name.Tag), image(t, "a layer", "another one")))
	newTokenServer(t).want(t)
	prefix := places{
		location: func(u *url.URL) { u.Path = strings.Replace(u.Path, "/v2/team/app/blobs/", ours+"team/app/", 1) },
		back:     func(u *url.URL) { u.Path = strings.Replace(u.Path, ours+"team/app/", "/v2/team/app/blobs/", 1) },
	}
	relative := prefix
	relative.location = func(u *url.URL) { prefix.location(u); u.Path = "../../../../.." + u.Path }
	inPieces := prefix
	inPieces.refuses = refusesWholeBlobs
	for how, p := range map[string]places{
		"a path of its own": prefix,
		"relative":          relative,
		"in pieces":         inPieces,
		"with /blobs/ in it": {
			location: func(u *url.URL) { u.Path = "/service/blobs" + u.Path },
			back:     func(u *url.URL) { u.Path = strings.TrimPrefix(u.Path, "/service/blobs") },
		},
		"in the query": {
			location: func(u *url.URL) { setQuery(u, uploadQ, u.Path); u.Path = "/resume" },
			back: func(u *url.URL) {
				if u.Path == "/resume" {
					u.Path = u.Query().Get(uploadQ)
					setQuery(u, uploadQ, "")
				}
			},
		},
	} {
		t.Run(how, func(t *testing.T) {
			s := newStage(t, source, newServer(t))
			s.mirror.set(p.serve(s.mirror))
			wantState(t, s.run(t.Context(), Options{}, s.copy("team/app:v1", ""))[0], Copied)
			if n := s.mirror.count("PUT /v2/team/app/blobs/"); n != 0 {
				t.Errorf("%d uploads ended at a place that the registry did not name", n)
			}
			if n := s.mirror.count("PUT", "digest=", "Bearer "); n < 3 {
				t.Errorf("%d uploads ended with a token, want 3", n)
			}
		})
	}
	t.Run("a piece is refused", func(t *testing.T) {
		s := newStage(t, source, newServer(t))
		refusing := prefix
		refusing.refuses = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch {
				return refusesWholeBlobs(w, r)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Location", r.URL.String())
			w.WriteHeader(http.StatusSeeOther)
			return true
		}
		s.mirror.set(refusing.serve(s.mirror))
		j := s.run(t.Context(), Options{}, s.copy("team/app:v1", ""))[0]
		wantState(t, j, Failed)
		if want := s.mirror.host + " answers 303 to a piece of a blob, which is then not there"; j.Err.Error() != want {
			t.Errorf("the reason is %q, want %q", j.Err, want)
		}
	})
}

// TestStorageBehindTheSameHost: what a registry redirects to a path of its own is read there, with what opens the repository,
// and no further than a manifest may be long if it is one.
func TestStorageBehindTheSameHost(t *testing.T) {
	skip.UnlessIntegration(t)
	mirror := newServer(t)
	newTokenServer(t).want(t)
	source := newServer(t)
	fill := newStage(t, mirror, source) // with a token
	check(t, remote.Write(ref(t, mirror.host+"/team/app:v1").(name.Tag), image(t, "a layer", "another one")))
	wantState(t, fill.run(t.Context(), Options{}, fill.copy("team/app:v1", ""))[0], Copied)
	s := newStage(t, source, newServer(t))
	source.set(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/storage/") {
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/storage")
			return false
		}
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") && !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		http.Redirect(w, r, "/storage"+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	wantState(t, s.run(t.Context(), Options{}, s.copy("team/app:v1", ""))[0], Copied)
	if n := source.count("GET", "/storage/", "/blobs/", "Bearer "); n < 3 {
		t.Errorf("%d blobs were read with a token where they are, want 3", n)
	}

	endless := newServer(t)
	s = newStage(t, source, endless)
	source.set(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasPrefix(r.URL.Path, "/storage/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = io.Copy(w, zeros{}) // until the client leaves
			return true
		case strings.Contains(r.URL.Path, "/manifests/"):
			http.Redirect(w, r, "/storage"+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		default:
			return false
		}
	})
	j := s.run(t.Context(), Options{}, s.copy("team/app:v1", ""))[0]
	wantState(t, j, Failed)
	if want := "the answer has more than 4 MiB"; !strings.Contains(j.Err.Error(), want) {
		t.Errorf("the reason is %q, want %q", j.Err, want)
	}
}
