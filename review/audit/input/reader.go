package input

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
)

// A Reader reads records. The zero value reads those that the guard has written.
type Reader struct {
	// Stdin is read for the path "-".
	Stdin io.Reader
	// Webhooks are the names of the guard's webhooks, under which the API server's log has the
	// guard's annotations.
	Webhooks []string
	// Full also decodes the facts and the change of a decision, which takes most of the time.
	Full bool
	// Trouble is called for each part that cannot be read; it may be nil.
	Trouble func(Trouble)
}

// A Record is the content of one line: a decision or, if Loss is set, that records were lost or, if
// Confirmation is set, what became of an override. Decision then has when, whose and of what, and
// the verdict confirmed or unconfirmed.
type Record struct {
	Decision     auditv1alpha1.Decision
	Loss         *auditv1alpha1.Loss
	Confirmation *auditv1alpha1.Confirmation
	// Line is the line as the guard wrote it, without its line feed, and is valid until the next
	// record is read; nil for a record from the API server's log.
	Line []byte
	// key is the same for all records of a decision.
	key string
}

// A Trouble is something that cannot be read.
type Trouble struct {
	// File is the path, or "standard input".
	File string
	// Line is the number of the line, from 1; 0 for the file as a whole.
	Line int
	// What is wrong, for people.
	What string
}

// String implements fmt.Stringer.
func (t Trouble) String() string {
	if t.Line == 0 {
		return t.File + ": " + t.What
	}
	return fmt.Sprintf("%s, line %d: %s", t.File, t.Line, t.What)
}

// Stats count the input.
type Stats struct {
	// Files is how many files were read, to their end or not.
	Files int
	// Lines is how many lines were read, Others how many of them are about something else.
	Lines, Others int
	// Repeated counts the records of decisions that an earlier record had already.
	Repeated int
	// Backwards is how many records are older than the one before in their file: a clock was set
	// back, or files were joined.
	Backwards int
	// Troubles is how many lines, and files, could not be read.
	Troubles int
}

// maxFiles bounds the files that are open at once.
const maxFiles = 1000

// Read calls each for every record in the files at paths, of which one may be a folder (all
// files in it) or "-" (standard input). It fails if a file cannot be opened, if each fails, or if
// ctx ends.
func (r Reader) Read(ctx context.Context, paths []string, each func(Record) error) (Stats, error) {
	m := merger{reader: r}
	defer m.close()
	files, err := expand(paths)
	if err != nil {
		return m.stats, err
	}
	for _, path := range files {
		if err := m.add(path); err != nil {
			return m.stats, err
		}
	}
	err = m.run(ctx, each)
	return m.stats, err
}

// expand replaces folders by the files in them.
func expand(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		if path == "-" {
			files = append(files, path)
			continue
		}
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if file == path || entry.Type().IsRegular() {
				files = append(files, file)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	switch {
	case len(files) == 0:
		return nil, errors.New("there is no file to read")
	case len(files) > maxFiles:
		return nil, fmt.Errorf("there are %d files, and %d are the most", len(files), maxFiles)
	}
	return files, nil
}

// A merger reads several sources in the order of their records' times.
type merger struct {
	reader  Reader
	stats   Stats
	sources []*source // those that have a record
	seen    recentKeys
}

func (m *merger) add(path string) error {
	s, err := m.open(path)
	if err != nil {
		return err
	}
	m.stats.Files++
	if !s.next() {
		return s.close()
	}
	m.sources = append(m.sources, s)
	return nil
}

func (m *merger) run(ctx context.Context, each func(Record) error) error {
	heap.Init((*byTime)(&m.sources))
	for len(m.sources) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := m.sources[0]
		if !m.seen.add(s.record.key) {
			m.stats.Repeated++
		} else if err := each(s.record); err != nil {
			return err
		}
		if s.next() {
			heap.Fix((*byTime)(&m.sources), 0)
			continue
		}
		heap.Pop((*byTime)(&m.sources))
		if err := s.close(); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) close() {
	for _, s := range m.sources {
		_ = s.close() // it was only read
	}
}

// byTime is a heap of sources by the times of their records. Those of one time come in the order
// of the paths.
type byTime []*source

func (b byTime) Len() int      { return len(b) }
func (b byTime) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *byTime) Push(x any)   { *b = append(*b, x.(*source)) }

func (b byTime) Less(i, j int) bool {
	if c := b[i].record.Decision.Time.Compare(b[j].record.Decision.Time); c != 0 {
		return c < 0
	}
	return b[i].number < b[j].number
}

func (b *byTime) Pop() any {
	last := (*b)[len(*b)-1]
	*b = slices.Delete(*b, len(*b)-1, len(*b))
	return last
}

// recentKeys remembers the keys of the last records. Those of one decision are close to each
// other, as records come in the order of their times.
type recentKeys struct {
	known map[string]bool
	ring  []string
	next  int
}

// maxRecentKeys takes some 10 MB.
const maxRecentKeys = 100_000

// add reports whether key is new. A key that is "" always is.
func (r *recentKeys) add(key string) bool {
	if key == "" {
		return true
	}
	if r.known[key] {
		return false
	}
	if r.known == nil {
		r.known = map[string]bool{}
	}
	r.known[key] = true
	if len(r.ring) < maxRecentKeys {
		r.ring = append(r.ring, key)
		return true
	}
	delete(r.known, r.ring[r.next])
	r.ring[r.next] = key
	r.next = (r.next + 1) % maxRecentKeys
	return true
}
