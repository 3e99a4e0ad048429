package presence

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

func present(mediaType string) *policy.Fact {
	return &policy.Fact{Presence: policy.Present, Digest: manifestSum.String(), MediaType: mediaType, Time: time.Now().Round(0)}
}

// some are facts of each kind, and whether they survive a restart.
func some() (facts policy.Facts, survive map[mirrors.Location]bool) {
	facts, survive = policy.Facts{}, map[mirrors.Location]bool{}
	add := func(l mirrors.Location, f *policy.Fact, survives bool) { facts[l], survive[l] = f, survives }
	at := func(name string) mirrors.Location {
		return mirrors.Location{Ref: host + "/" + name + "@" + manifestSum.String()}
	}
	insecure := at("insecure")
	insecure.Insecure = true
	index := present(ociIndex)
	index.Platforms, index.Children = []string{"linux/amd64"}, []string{manifestSum.String()}
	index.Serves, index.Lacks = []string{"linux/amd64"}, []string{"linux/arm64"}
	guessed := present(ociManifest)
	guessed.Serves, guessed.Guessed = []string{"linux/amd64"}, true
	deep := at("deep")
	deep.Depth = mirrors.DepthManifest
	add(deep, guessed, false) // there are nodes: see TestRestartOfAGuess
	sparse := new(policy.Fact)
	*sparse = *index
	sparse.Missing = []string{"linux/arm64"}
	add(at("single"), present(ociManifest), true)
	add(insecure, present(ociManifest), true)
	add(at("index"), index, true)
	add(at("index-that-nobody-read"), present(ociIndex), false)
	add(at("sparse"), sparse, false)
	add(mirrors.Location{Ref: host + "/tagged:1"}, present(ociManifest), false)
	for _, bad := range []policy.Presence{policy.Absent, policy.Denied, policy.Unreachable, policy.Mismatch} {
		add(at(bad.String()), &policy.Fact{Presence: bad, Detail: "canary", Time: time.Now()}, false)
	}
	return facts, survive
}

// A counter answers from facts and counts.
type counter struct {
	ProberFunc // the rest of a Prober
	facts      policy.Facts
	platforms  []string
	probed     atomic.Int32
}

func (c *counter) Probe(_ context.Context, l mirrors.Location) policy.Fact {
	c.probed.Add(1)
	return *c.facts.At(l)
}

func (c *counter) Platforms() []string { return c.platforms }

func withPath(path string) func(*Options) { return func(o *Options) { o.Path = path } }

// saved returns the path of a file that a store has left, with facts in it.
func saved(t *testing.T, facts policy.Facts, platforms ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "facts")
	s := newTestStore(&counter{facts: facts, platforms: platforms}, withPath(path))
	s.Restore()
	s.Presence(t.Context(), slices.Collect(maps.Keys(facts)))
	s.Close()
	if notes := s.Notes(); len(notes) != 0 {
		t.Fatalf("notes: %q", notes)
	}
	return path
}

// TestRestart: good news about digests survives it, and nothing else.
func TestRestart(t *testing.T) {
	facts, survive := some()
	platforms := []string{"linux/amd64", "linux/arm64"}
	path := saved(t, facts, platforms...)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if data, err := os.ReadFile(path); err != nil || bytes.Contains(data, []byte("canary")) {
		t.Errorf("%v; the file has what a registry said:\n%s", err, data)
	}
	for l, survives := range survive {
		p := &counter{platforms: platforms}
		s := newTestStore(p, withPath(path))
		s.Restore()
		got, ok := s.Presence(t.Context(), []mirrors.Location{l})[l]
		if ok != survives || (p.probed.Load() == 0) != survives {
			t.Errorf("%s survives: %v after %d probes, want %v", l.Ref, ok, p.probed.Load(), survives)
		}
		if survives {
			if diff := cmp.Diff(facts[l], got); diff != "" {
				t.Errorf("%s: %s", l.Ref, diff)
			}
		}
		s.Close()
	}
}

// TestRestartOfAGuess: what was found without knowing of any node counts until there is one.
func TestRestartOfAGuess(t *testing.T) {
	facts, _ := some()
	guesses := maps.Clone(facts)
	maps.DeleteFunc(guesses, func(_ mirrors.Location, f *policy.Fact) bool { return !f.Guessed })
	path := saved(t, guesses)
	for l := range guesses {
		for _, platforms := range [][]string{nil, {"linux/amd64"}} {
			p := &counter{platforms: platforms}
			s := newTestStore(p, withPath(path))
			s.Restore()
			got := s.Presence(t.Context(), []mirrors.Location{l})[l]
			if survives := platforms == nil; (p.probed.Load() == 0) != survives || survives && !cmp.Equal(facts[l], got) {
				t.Errorf("with nodes of %q: %+v after %d probes", platforms, got, p.probed.Load())
			}
			s.Close()
		}
	}
	if len(guesses) != 1 {
		t.Errorf("%d guesses", len(guesses))
	}
}

// TestRestartTwice: what was taken over, and is still fresh, is saved again with the
// time at which it was learned.
func TestRestartTwice(t *testing.T) {
	path := saved(t, policy.Facts{digested(): present(ociManifest)})
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestStore(&counter{}, withPath(path))
	s.Restore()
	s.Close()
	second, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		t.Error(diff)
	}
}

// TestRestoreComesFirst: a process that ends before it was ready leaves the file as it
// is.
func TestRestoreComesFirst(t *testing.T) {
	path := saved(t, policy.Facts{digested(): present(ociManifest)})
	s := newTestStore(&counter{}, withPath(path))
	s.Close()
	again := newTestStore(&counter{}, withPath(path))
	defer again.Close()
	again.Restore()
	if facts := again.Presence(t.Context(), []mirrors.Location{digested()}); len(facts) != 1 {
		t.Error("the facts are gone")
	}
}

// TestRestoredFactsAreOfNow: they count under the credentials at the time of Restore,
// end with them, and are the first that Keep asks for again.
func TestRestoredFactsAreOfNow(t *testing.T) {
	path := saved(t, policy.Facts{digested(): present(ociManifest)})
	p := &changingProber{fakeProber: fakeProber{presence: policy.Denied}}
	s := newTestStore(p, withPath(path))
	defer s.Close()
	p.generation.Add(3) // credentials, CAs, proxy: what a start sets
	s.Restore()
	ask := func() policy.Presence {
		return s.Presence(t.Context(), []mirrors.Location{digested()}).At(digested()).Presence
	}
	if got := ask(); got != policy.Present || p.probed.Load() != 0 {
		t.Errorf("%v after %d probes", got, p.probed.Load())
	}
	s.Keep("live", []mirrors.Location{digested()}, 0)
	if at := s.keeper.due[digested()]; at.After(time.Now()) {
		t.Errorf("due in %v, want at once", time.Until(at))
	}
	p.generation.Add(1)
	if got := ask(); got != policy.Denied || p.probed.Load() != 1 {
		t.Errorf("%v after %d probes, though the credentials have changed", got, p.probed.Load())
	}
}

// rewrite changes the lines of a file of facts and makes its header fit.
func rewrite(t *testing.T, path string, change func(body string) string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(data), "\n")
	body = change(body)
	header, err := json.Marshal(fileHeader{fileKind, fileVersion, sumOfBody([]byte(body))})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(append(header, '\n'), body...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFilesThatAreNotUsed: each is dropped with a note, and replaced by a good one.
func TestFilesThatAreNotUsed(t *testing.T) {
	replaced := func(old, by string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			rewrite(t, path, func(body string) string {
				if !strings.Contains(body, old) {
					t.Fatalf("no %q in %s", old, body)
				}
				return strings.Replace(body, old, by, 1)
			})
		}
	}
	edited := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		reason string
		spoil  func(*testing.T, string)
		note   string
	}{
		{"empty", edited(func([]byte) []byte { return nil }), "is not a file of facts"},
		{"something else", edited(func([]byte) []byte { return []byte("root:x:0:0\n") }), "is not a file of facts"},
		{"JSON of somebody else", edited(func([]byte) []byte { return []byte(`{"kind":"Pod"}` + "\n") }), "is not a file of facts"},
		{"of another version", edited(func(b []byte) []byte { return bytes.Replace(b, []byte(`"version":4`), []byte(`"version":3`), 1) }), "has version 3, this program writes 4"},
		{"one bit is wrong", edited(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), "is damaged"},
		{"cut off", edited(func(b []byte) []byte { return b[:len(b)-10] }), "is damaged"},
		{"longer than any", edited(func([]byte) []byte { return make([]byte, maxFileSize+1) }), "is longer than any file of facts"},
		{"a line that is no fact", replaced(`{"ref":`, `["ref":`), "has a line that is not a fact"},
		{"a tag", replaced("@"+manifestSum.String(), ":1"), "has a fact that cannot be true"},
		{"a type that no node reads", replaced(ociManifest, "text/html"), "has a fact that cannot be true"},
		{"a reference that no node reads", replaced(host, "UPPER CASE"), "has a fact that cannot be true"},
		{"control characters", replaced(`"platforms":null`, `"platforms":["\u001b[31mlinux"]`), "has a fact that cannot be true"},
		{"a child that is no digest", replaced(`"children":null`, `"children":["sha256:x"]`), "has a fact that cannot be true"},
		{"no time", replaced(`"time":"2`, `"time":"0001-01-01T00:00:00Z","x":"2`), "has a fact that cannot be true"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			path := saved(t, policy.Facts{digested(): present(ociManifest)})
			tc.spoil(t, path)
			p := &counter{facts: policy.Facts{digested(): present(ociManifest)}}
			s := newTestStore(p, withPath(path))
			defer s.Close()
			s.Restore()
			if notes := strings.Join(s.Notes(), ""); !strings.HasPrefix(notes, "saved facts are not used: ") {
				t.Errorf("notes: %q", notes)
			}
			if _, err := s.file.load(); err == nil || !strings.HasSuffix(err.Error(), tc.note) {
				t.Errorf("error = %v, want %q", err, tc.note)
			}
			s.Presence(t.Context(), []mirrors.Location{digested()})
			if n := p.probed.Load(); n != 1 {
				t.Errorf("%d probes, want 1: the file was used", n)
			}
			s.save()
			if facts, err := s.file.load(); err != nil || len(facts) != 1 || len(s.Notes()) != 0 {
				t.Errorf("after the next save: %d facts, %v, notes %q", len(facts), err, s.Notes())
			}
		})
	}
}

// TestRestoreBelievesNoClock: facts that are too old, or of the future, are left out.
func TestRestoreBelievesNoClock(t *testing.T) {
	for _, tc := range []struct {
		reason string
		age    time.Duration
		used   bool
	}{
		{"young", time.Minute, true},
		{"older than its life", time.Hour + time.Minute, false},
		{"of last year", 365 * 24 * time.Hour, false},
		{"of the next hour", -time.Hour, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			path := saved(t, policy.Facts{digested(): present(ociManifest)})
			rewrite(t, path, func(body string) string {
				var f fileFact
				if err := json.Unmarshal([]byte(body), &f); err != nil {
					t.Fatal(err)
				}
				f.Time = time.Now().Add(-tc.age)
				line, err := json.Marshal(f)
				if err != nil {
					t.Fatal(err)
				}
				return string(line) + "\n"
			})
			p := &counter{}
			s := newTestStore(p, withPath(path))
			defer s.Close()
			s.Restore()
			s.Presence(t.Context(), []mirrors.Location{digested()})
			if used := p.probed.Load() == 0; used != tc.used {
				t.Errorf("used: %v, want %v", used, tc.used)
			}
		})
	}
}

// TestFileIsBounded: the newest facts are those that are kept.
func TestFileIsBounded(t *testing.T) {
	facts := policy.Facts{}
	locs := digests(100, "h.io/a%d")
	for _, l := range locs {
		facts[l] = present(ociManifest)
	}
	path := filepath.Join(t.TempDir(), "facts")
	s := newTestStore(&counter{facts: facts}, withPath(path))
	s.Restore()
	for _, l := range locs { // one by one, for the order
		s.Presence(t.Context(), []mirrors.Location{l})
	}
	s.Close()
	p := &counter{}
	few := newTestStore(p, withPath(path), func(o *Options) { o.MaxFacts = 10 })
	defer few.Close()
	few.Restore()
	if got := few.Presence(t.Context(), locs[90:]); len(got) != 10 || p.probed.Load() != 0 || len(few.memory.facts) != 10 {
		t.Errorf("%d of the newest 10 facts after %d probes, %d in memory", len(got), p.probed.Load(), len(few.memory.facts))
	}
}

// TestFileSize: a file of the largest facts is cut, and can be read.
func TestFileSize(t *testing.T) {
	f := fileFact{Ref: digested().Ref, MediaType: ociIndex, Time: time.Now()}
	for range maxPlatforms {
		f.Platforms = append(f.Platforms, strings.Repeat("x", maxName))
		f.Children = append(f.Children, manifestSum.String())
	}
	line, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	file := file{path: filepath.Join(t.TempDir(), "facts"), most: 100_000}
	if err := file.replace(slices.Repeat([]fileFact{f}, 2*maxFileSize/len(line))); err != nil {
		t.Fatal(err)
	}
	facts, err := file.load()
	if want := (maxFileSize - 2<<10) / (len(line) + 1); err != nil || len(facts) < want {
		t.Errorf("%d facts, want at least %d; %v", len(facts), want, err)
	}
}

// TestFileThatCannotBeWritten is said, and stops nothing.
func TestFileThatCannotBeWritten(t *testing.T) {
	s := newTestStore(&counter{}, withPath(filepath.Join(t.TempDir(), "gone", "facts")))
	s.Restore()
	s.Close()
	if notes := s.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "facts cannot be saved: ") {
		t.Errorf("notes: %q", notes)
	}
}

// TestSavesLeaveNothingBehind: the folder holds the one file.
func TestSavesLeaveNothingBehind(t *testing.T) {
	path := saved(t, policy.Facts{digested(): present(ociManifest)})
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"ref":"h.io/a@` + manifestSum.String() + `","mediaType":"` + ociManifest + `","platforms":null,"children":null,"time":"2026-01-01T00:00:00Z"}` + "\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		facts, _ := (&file{most: 10}).parse(body)
		for _, m := range facts {
			if !lasting(&m) || m.fact.Digest != m.location.Ref[strings.LastIndex(m.location.Ref, "@")+1:] {
				t.Errorf("took over %+v", m)
			}
		}
	})
}
