package copying

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// TestCaches: what a real pull-through cache of distribution lacks is pulled once through it, whether it is declared or says so itself, and it
// is whole there once the upstream is gone.
func TestCaches(t *testing.T) {
	skip.UnlessIntegration(t)
	if _, err := registries.OlderBinary(); err != nil {
		skip.Now(t, err)
	}
	for _, declared := range []bool{true, false} {
		t.Run(fmt.Sprint("declared: ", declared), func(t *testing.T) {
			source := newServer(t)
			p, err := registries.StartCache(t.TempDir(), "http://"+source.host, io.Discard)
			s := newStage(t, source, serve(t, p, err))
			f := pushFixture(t, source.host+"/team/app")
			image := s.copy("team/app@"+f.digest, f.digest)
			lost := s.copy("team/lost:v1", "")
			image.Cache, lost.Cache, image.Rank = declared, declared, 1
			if !declared { // what is pushed has to be somewhere
				elsewhere := newServer(t)
				pushFixture(t, elsewhere.host+"/team/lost")
				lost.From[0].Ref = elsewhere.host + "/team/lost:v1"
				var pushed atomic.Bool
				s.mirror.refuses(http.StatusNotFound, func(r *http.Request) bool { // as one whose upstream is back only by then
					ours := strings.HasPrefix(r.URL.Path, "/v2/team/app/")
					pushed.CompareAndSwap(false, ours && r.Method == http.MethodPost)
					return ours && !pushed.Load()
				})
			}
			states := []chan State{make(chan State, 9), make(chan State, 9)} // by rank
			c := New(s.pull, s.push, Options{On: func(j *Job) { states[j.Rank] <- j.State }})
			jobs := c.Copy(t.Context(), []policy.Copy{image, lost}, func(jobs []*Job) {
				for state := Started; state == Started && jobs[0].Registry == s.mirror.host; { // again and again: the race detector forgets
					select {
					case state = <-states[1]:
					case <-time.After(time.Millisecond):
					}
				}
			})
			wantState(t, jobs[0], Copied)
			if jobs[0].Sent() == 0 || !jobs[0].Cache {
				t.Errorf("%d bytes came, of a cache: %t", jobs[0].Sent(), jobs[0].Cache)
			}
			wantState(t, jobs[1], Failed)
			if why := jobs[1].Err.Error(); !strings.Contains(why, "404") || !strings.HasSuffix(why, seeUpstream) || strings.Contains(why, "405") == declared {
				t.Errorf("the reason is %q", why)
			}
			if n := s.mirror.count("POST") + s.mirror.count("PUT"); declared && n > 0 {
				t.Errorf("%d requests try to push", n)
			}
			source.refuses(http.StatusServiceUnavailable, func(*http.Request) bool { return true })
			// What was pulled is there: tags are asked for at the upstream first, so that all is by digest.
			at := ref(t, s.mirror.host+"/team/app@"+f.digest).(name.Digest)
			list := must[v1.ImageIndex](t)(remote.Index(at))
			for _, m := range must[*v1.IndexManifest](t)(list.IndexManifest()).Manifests {
				img := must[v1.Image](t)(remote.Image(at.Digest(m.Digest.String())))
				for _, l := range must[[]v1.Layer](t)(img.Layers()) {
					content := must[io.ReadCloser](t)(l.Compressed())
					_ = must[int64](t)(io.Copy(io.Discard, content))
				}
			}
		})
	}
}
