package copying

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// content is what a registry that a tenant has built serves, by digest and by tag.
type content map[string]string

func (c content) put(what string) string {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(what)))
	c[digest] = what
	return digest
}

// image puts the manifest of an image without layers, which has a digest of its own. Subject is what it refers to, or "".
func (c content) image(of, subject string) string {
	config := c.put("{}")
	if subject != "" {
		subject = fmt.Sprintf(`"subject":{"mediaType":%q,"digest":%q,"size":%d},`, types.OCIManifestSchema1, subject, len(c[subject]))
	}
	return c.put(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":2},"layers":[],%s"annotations":{"of":%q}}`,
		types.OCIManifestSchema1, types.OCIConfigJSON, config, subject, of))
}

// index puts an index of parts.
func (c content) index(parts ...string) string { return c.put(c.list(parts...)) }

func (c content) list(parts ...string) string {
	var list []string
	for i, digest := range parts {
		list = append(list, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":"a%d"}}`, c.typeOf(digest), digest, len(c[digest]), i))
	}
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, types.OCIImageIndex, strings.Join(list, ","))
}

func (c content) typeOf(digest string) string {
	switch {
	case strings.Contains(c[digest], `"manifests"`):
		return string(types.OCIImageIndex)
	case strings.Contains(c[digest], `"fsLayers"`):
		return string(types.DockerManifestSchema1Signed)
	default:
		return string(types.OCIManifestSchema1)
	}
}

// serve answers a request for content, for what of it refers to some, each named twice, or for tags.
func (c content) serve(w http.ResponseWriter, r *http.Request) bool {
	at := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	what, ok := c[at]
	mediaType := c.typeOf(at)
	switch {
	case strings.Contains(r.URL.Path, "/referrers/"):
		var refer []string
		for digest, m := range c {
			if strings.Contains(m, fmt.Sprintf(`"subject":{"mediaType":%q,"digest":%q`, types.OCIManifestSchema1, at)) {
				refer = append(refer, digest, digest)
			}
		}
		what, mediaType = c.list(refer...), string(types.OCIImageIndex)
	case at == "list":
		what = `{"name":"app","tags":["v1"]}`
	case !ok:
		return false
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = w.Write([]byte(what))
	return true
}

// TestRepeatedParts: what indexes name again and again is read once, and put once.
func TestRepeatedParts(t *testing.T) {
	s, c := newStage(t, newServer(t), newServer(t)), content{}
	s.source.set(c.serve)
	at := c.image("the only one", "")
	for range maxNesting + 1 {
		parts := make([]string, maxParts)
		for i := range parts {
			parts[i] = at
		}
		at = c.index(parts...)
	}
	wantState(t, s.run(t.Context(), Options{}, s.copy("app@"+at, at))[0], Copied)
	for what, n := range map[string]int{
		"reads": s.source.count("GET", "/manifests/sha256:"), "puts": s.mirror.count("PUT", "/manifests/"),
	} {
		if n != maxNesting+2 {
			t.Errorf("%d %s of manifests, want %d, one for each", n, what, maxNesting+2)
		}
	}
	raw(t, s.mirror.host+"/app@"+at)
}

// TestTooManyManifests: what an image consists of has a bound, however it is nested, and what it is attached to. What is refused takes
// no memory.
func TestTooManyManifests(t *testing.T) {
	const most = maxManifests + 2*readsAtOnce // of which some are under way when it is clear
	wide := func(c content) string {
		var indexes []string
		for i := range maxParts {
			var parts []string
			for k := range 20 {
				parts = append(parts, c.image(fmt.Sprint(i, " ", k), ""))
			}
			indexes = append(indexes, c.index(parts...))
		}
		return c.index(indexes...)
	}
	edited := func(before, after string) func(c content) string {
		return func(c content) string { return c.put(strings.Replace(c[c.image("one", "")], before, after, 1)) }
	}
	for what, tt := range map[string]struct {
		put func(c content) (digest string)
		why string
	}{
		"parts": {wide, "it has more than 1000 manifests, with what is attached to it; no more are read"},
		"bytes": {func(c content) string {
			var parts []string
			for i := range 10 {
				parts = append(parts, c.image(strings.Repeat(fmt.Sprint(i), 1<<20), ""))
			}
			return c.index(parts...)
		}, "its manifests take more than 8 MiB"},
		"elements":      {edited(`"layers":[`, `"layers":[0`+strings.Repeat(",0", 1<<20)), "its manifests take more than 8 MiB"},
		"blobs":         {edited(`"layers":[`, `"layers":[{}`+strings.Repeat(",{}", maxBlobs)), "its manifest names 1002 blobs"},
		"negative":      {edited(`"size":2`, `"size":-1`), " has -1 bytes"},
		"schema 1":      {func(c content) string { return c.put(`{"schemaVersion":1,"fsLayers":[]}`) }, "it is an image of schema 1, which is not copied; build it anew"},
		"sums overflow": {edited(`"size":2`, `"size":9223372036854775807`), " has 9223372036854775807 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			s, c := newStage(t, newServer(t), newServer(t)), content{}
			at := tt.put(c)
			s.source.set(c.serve)
			copier := New(s.pull, s.push, Options{})
			before := copier.room.left.Load()
			j := copier.Survey(t.Context(), []policy.Copy{s.copy("app@"+at, at)})[0]
			wantState(t, j, Failed)
			if left := copier.room.left.Load(); !strings.Contains(j.Err.Error(), tt.why) || left != before {
				t.Errorf("the reason is %q, want %q; it still takes %d bytes", j.Err, tt.why, before-left)
			}
			if n := s.source.count("GET", "/manifests/sha256:"); n > most {
				t.Errorf("%d manifests were read, want %d at most", n, most)
			}
			if n := s.mirror.count("POST") + s.mirror.count("PUT"); n != 0 {
				t.Errorf("%d requests send some of it", n)
			}
		})
	}
	t.Run("referrers", func(t *testing.T) {
		s, c := newStage(t, newServer(t), newServer(t)), content{}
		var parts []string
		for i := range 20 {
			parts = append(parts, c.image(fmt.Sprint("part ", i), ""))
			for k := range 2 * maxAttached {
				c.image(fmt.Sprint(i, " ", k), parts[i])
			}
		}
		at := c.index(parts...)
		s.source.set(c.serve)
		jobs := New(s.pull, s.push, Options{}).Survey(t.Context(), []policy.Copy{s.copy("app@"+at, at)})
		if n := s.source.count("GET", "/manifests/sha256:"); n > most {
			t.Errorf("%d manifests were read, want %d at most", n, most)
		}
		wantState(t, jobs[0], Open)
		if notes := strings.Join(jobs[0].Notes, "\n"); !strings.Contains(notes, "no more are read") {
			t.Errorf("the notes are %q, want it said that some are not copied", notes)
		}
	})
}

// TestReferrers: of what a registry says instead of a list of what refers to an image, only that it has no such lists is remembered. What may
// pass is asked for again, and else there is a note. Where they always fail, images are copied nonetheless.
func TestReferrers(t *testing.T) {
	const all, always = 7, http.StatusBadGateway
	for status, lost := range map[int]int{200: all, 400: all, 404: all, 406: all, 401: 0, 429: 0, 500: 0, 503: 0, 403: 1, 405: 1, always: all} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			s, c := newStage(t, newServer(t), newServer(t)), content{}
			var parts []string
			for i := range all - 1 {
				parts = append(parts, c.image(fmt.Sprint(i), ""))
			}
			at, later := c.index(parts...), c.image("another", "")
			referrers := convert.Each(append(parts, at), func(of string) string { return c.image("refers to it", of) })
			var asked atomic.Int64
			s.source.set(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/referrers/") || asked.Add(1) > 1 && status != always {
					return c.serve(w, r)
				}
				w.WriteHeader(status)
				return true
			})
			copier := New(s.pull, s.push, Options{})
			jobs := append(copier.Survey(t.Context(), []policy.Copy{s.copy("app@"+at, at)}), copier.Survey(t.Context(), []policy.Copy{s.copy("app@"+later, later)})...)
			copier.run(t.Context(), jobs)
			wantState(t, jobs[0], Copied)
			wantState(t, jobs[1], Copied)
			missing := slices.DeleteFunc(referrers, func(digest string) bool {
				_, err := remote.Head(ref(t, s.mirror.host+"/app@"+digest))
				return err == nil
			})
			if notes := jobs[0].Notes; len(missing) != lost || (len(notes) == 1) != (lost == 1 || status == always) || (asked.Load() == 1) != (lost == all && status != always) {
				t.Errorf("%d are not copied, want %d; %d requests, notes %q", len(missing), lost, asked.Load(), notes)
			}
		})
	}
}

// TestInterruptedReading: a run that is interrupted while it reads an image of many manifests asks for no more of them.
func TestInterruptedReading(t *testing.T) {
	s, c := newStage(t, newServer(t), newServer(t)), content{}
	var parts []string
	for i := range maxParts {
		parts = append(parts, c.image(fmt.Sprint(i), ""))
	}
	at := c.index(parts...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	s.source.set(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/manifests/sha256:") && n.Add(1) == 2 {
			cancel()
		}
		return c.serve(w, r)
	})
	s.run(ctx, Options{}, s.copy("app@"+at, at))
	if n := n.Load(); n > 2+readsAtOnce {
		t.Errorf("%d manifests were read, want those at most that were under way", n)
	}
}

// TestAttachedIndex: an attached index is copied with all below it, also what is missing of one that the mirror has.
func TestAttachedIndex(t *testing.T) {
	source := newServer(t)
	t.Setenv("REGISTRY_VALIDATION_MANIFESTS_INDEXES_PLATFORMS", "none") // which has a registry take an index without its parts
	s, c := newStage(t, source, newServer(t)), content{}
	at := c.image("what something is attached to", "")
	part := c.image("deep below", "")
	inner := c.index(part)
	outer := c.index(inner)
	tag := strings.Replace(at, ":", "-", 1) + ".sbom"
	c[tag] = c[outer]
	s.source.set(c.serve)
	all := func(when string) {
		t.Helper()
		for _, digest := range []string{at, part, inner, outer} {
			if got := raw(t, s.mirror.host+"/app@"+digest); string(got) != c[digest] {
				t.Errorf("%s, %s is %q", when, digest, got)
			}
		}
		raw(t, s.mirror.host+"/app:"+tag)
	}
	wantState(t, s.run(t.Context(), Options{}, s.copy("app@"+at, at))[0], Copied)
	all("copied")
	for _, digest := range []string{part, inner} {
		check(t, remote.Delete(ref(t, s.mirror.host+"/app@"+digest)))
	}
	wantState(t, s.run(t.Context(), Options{}, s.copy("app@"+at, at))[0], Copied)
	all("copied again")
}
