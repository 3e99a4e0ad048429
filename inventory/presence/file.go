package presence

import (
	"bytes"
	"crypto/sha256"   // also links in the algorithm, without which no digest of it is valid
	_ "crypto/sha512" // the same
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containers/image/v5/docker/reference"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A file keeps facts across a restart: a header on a line of its own, then one fact a
// line, all in JSON. It holds names of images and nothing secret. Only good news about
// digests is in it: the rest would not outlive a restart by much.
type file struct {
	path string
	most int

	mu       sync.Mutex
	restored bool // until it is set, the file must not be replaced, as that might lose facts
}

// saveEvery bounds what a crash costs.
const saveEvery = 5 * time.Minute

const (
	fileKind    = "mirrorset-guard facts"
	fileVersion = 4
	// maxFileSize is more than 100,000 images need. The oldest facts beyond it are left
	// out.
	maxFileSize = 32 << 20
	// maxPlatforms and maxName are what registry.Client remembers of an index at most:
	// platforms or children, and runes of each name. A test of the Client pins them.
	maxPlatforms = 64
	maxName      = 80
)

// A fileHeader describes what follows it.
type fileHeader struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// Sum is the SHA-256 of everything behind the header's line.
	Sum string `json:"sha256"`
}

// A fileFact is a fact about a location whose reference has a digest.
type fileFact struct {
	Ref       string        `json:"ref"`
	Insecure  bool          `json:"insecure,omitempty"`
	Depth     mirrors.Depth `json:"depth,omitempty"`
	MediaType string        `json:"mediaType"`
	Platforms []string      `json:"platforms"`
	Children  []string      `json:"children"`
	Serves    []string      `json:"serves"`
	Lacks     []string      `json:"lacks,omitempty"`
	Guessed   bool          `json:"guessed,omitempty"`
	// Instances are those of the fact.
	Instances []policy.Instance `json:"instances,omitzero"`
	Time      time.Time         `json:"time"`
}

// Restore loads what an earlier process saved at Options.Path, if it is still fresh, and
// allows the Store to save there. It is called once, after the credentials and the trust of
// the nodes are set: what is loaded counts only under those. Facts that are to be kept
// fresh are looked up again soon.
//
// A file that is damaged, or not a file of facts, is not used at all; a note says so until
// the next save replaces it.
func (s *Store) Restore() {
	if s.file.path == "" {
		return
	}
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	s.file.restored = true
	facts, err := s.file.load()
	if err != nil {
		s.SetNote(fileTopic, fmt.Sprintf("saved facts are not used: %v", err))
		return
	}
	s.inherit(facts)
}

const fileTopic = "saved facts"

// inherit remembers facts that are fresh, where there is no fresh one yet.
func (s *Store) inherit(facts []memo) {
	b := s.basis()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range facts {
		m.generation, m.inherited = b.generation, true
		known := s.memory.get(m.location)
		// A fact from the future was dated by a wrong clock, and would live too long.
		if known != nil && s.fresh(known, b, now) || m.learned.After(now) || !s.lives(&m, now) {
			continue
		}
		s.memory.put(m)
	}
}

// save writes what is worth saving.
func (s *Store) save() {
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	if s.file.path == "" || !s.file.restored {
		return
	}
	if err := s.file.replace(s.worthSaving()); err != nil {
		s.SetNote(fileTopic, fmt.Sprintf("facts cannot be saved: %v", err))
		return
	}
	s.SetNote(fileTopic, "")
}

// worthSaving returns the facts to save, the newest first.
func (s *Store) worthSaving() []fileFact {
	b := s.basis()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var facts []fileFact
	for e := s.memory.byAge.Back(); e != nil; e = e.Prev() {
		if m := e.Value.(*memo); s.fresh(m, b, now) && lasting(m) {
			facts = append(facts, fileFact{
				Ref: m.location.Ref, Insecure: m.location.Insecure, Depth: m.location.Depth,
				MediaType: m.fact.MediaType, Platforms: m.fact.Platforms, Children: m.fact.Children,
				Serves: m.fact.Serves, Lacks: m.fact.Lacks, Guessed: m.fact.Guessed, Instances: m.fact.Instances,
				Time: m.fact.Time.Round(0),
			})
		}
	}
	return facts
}

// lasting reports whether m is good news about a digest, in full.
func lasting(m *memo) bool {
	return m.fact.Presence == policy.Present && !m.fact.Time.IsZero() && len(m.fact.Missing) == 0 &&
		mirrors.ByDigest(m.location.Ref) &&
		(m.fact.Platforms != nil || !types.MediaType(m.fact.MediaType).IsIndex()) // else the index was not read
}

// replace writes facts so that a reader finds the old file or the new one, whole.
func (f *file) replace(facts []fileFact) error {
	body, err := encode(facts)
	if err != nil {
		return err
	}
	head, err := json.Marshal(fileHeader{fileKind, fileVersion, sumOfBody(body)})
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(f.path), ".facts-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temporary.Write(append(head, '\n'))
	_, bodyErr := temporary.Write(body)
	err = errors.Join(err, bodyErr, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// encode returns the lines of as many facts as may be in a file.
func encode(facts []fileFact) ([]byte, error) {
	var body []byte
	for _, fact := range facts {
		line, err := json.Marshal(fact)
		if err != nil {
			return nil, fmt.Errorf("encoding: %w", err)
		}
		if len(body)+len(line) > maxFileSize-1<<10 { // and the header
			break
		}
		body = append(append(body, line...), '\n')
	}
	return body, nil
}

// load returns the facts in the file, the oldest first, none if there is no file. One bad
// line is enough to distrust them all.
func (f *file) load() ([]memo, error) {
	data, err := readFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, body, _ := bytes.Cut(data, []byte("\n"))
	var header fileHeader
	switch err := json.Unmarshal(head, &header); {
	case err != nil || header.Kind != fileKind:
		return nil, fmt.Errorf("%s is not a file of facts", f.path)
	case header.Version != fileVersion:
		return nil, fmt.Errorf("%s has version %d, this program writes %d", f.path, header.Version, fileVersion)
	case header.Sum != sumOfBody(body):
		return nil, fmt.Errorf("%s is damaged", f.path)
	}
	return f.parse(body)
}

// parse reads the lines, the newest facts first.
func (f *file) parse(body []byte) ([]memo, error) {
	var facts []memo
	for line := range bytes.Lines(body) {
		var fact fileFact
		if err := json.Unmarshal(line, &fact); err != nil {
			return nil, fmt.Errorf("%s has a line that is not a fact", f.path)
		}
		m, ok := fact.memo()
		if !ok {
			return nil, fmt.Errorf("%s has a fact that cannot be true", f.path)
		}
		facts = append(facts, m)
	}
	facts = facts[:min(len(facts), f.most)]
	slices.Reverse(facts)
	return facts, nil
}

// memo returns the fact, and false if no Client could have found it.
func (f fileFact) memo() (memo, bool) {
	l := mirrors.Location{Ref: f.Ref, Insecure: f.Insecure, Depth: f.Depth}
	d := digestOf(f.Ref)
	if d == "" || !isManifest(f.MediaType) {
		return memo{}, false
	}
	plain := func(s string) bool { return s == text.OneLine(s, maxName) }
	for _, names := range [][]string{f.Platforms, f.Serves, f.Lacks} {
		if len(names) > maxPlatforms || !all(names, plain) {
			return memo{}, false
		}
	}
	if len(f.Children) > maxPlatforms || !all(f.Children, func(s string) bool { return digest.Digest(s).Validate() == nil }) {
		return memo{}, false
	}
	for _, i := range f.Instances {
		if !plain(i.Platform) || digest.Digest(i.Digest).Validate() != nil {
			return memo{}, false
		}
	}
	if len(f.Instances) > maxPlatforms {
		return memo{}, false
	}
	fact := &policy.Fact{
		Presence: policy.Present, Digest: d, MediaType: f.MediaType,
		Platforms: f.Platforms, Children: f.Children,
		Serves: f.Serves, Lacks: f.Lacks, Guessed: f.Guessed, Instances: f.Instances, Time: f.Time,
	}
	m := memo{location: l, fact: fact, learned: f.Time}
	return m, lasting(&m)
}

// isManifest reports whether nodes read content of a media type as a manifest.
func isManifest(mediaType string) bool {
	t := types.MediaType(mediaType)
	return t.IsImage() || t.IsIndex() || t.IsSchema1()
}

// digestOf returns the digest of a reference, "" if it has none or no node can read it.
func digestOf(ref string) string {
	if _, version, ok := mirrors.ParsePlain(ref); ok {
		if d, found := strings.CutPrefix(version, "@"); found {
			return d
		}
		return ""
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ""
	}
	if digested, ok := named.(reference.Digested); ok {
		return digested.Digest().String()
	}
	return ""
}

func all(values []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(values, func(s string) bool { return !ok(s) })
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("%s is longer than any file of facts", path)
	}
	return data, nil
}

func sumOfBody(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
