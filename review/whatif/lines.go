package whatif

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// MaxLines bounds a mapping, and a list of references. Those of a large house have tens of thousands.
	MaxLines = 2_000_000
	// maxLine is longer than two references can be: a name has at most 255 bytes, a tag 128, a digest
	// 135.
	maxLine = 4096
	// maxMistakes is how many mistakes of a file are named.
	maxMistakes = 10
)

// mistakes are the faults of a file.
type mistakes struct {
	lines []string
	more  int
}

func (m *mistakes) add(format string, args ...any) {
	if len(m.lines) == maxMistakes {
		m.more++
		return
	}
	m.lines = append(m.lines, text.Line(fmt.Sprintf(format, args...)))
}

// err returns all mistakes as one error, nil if there are none.
func (m *mistakes) err() error {
	if len(m.lines) == 0 {
		return nil
	}
	if m.more > 0 {
		m.lines = append(m.lines, fmt.Sprintf("and %s more", text.Number(m.more)))
	}
	return errors.New(strings.Join(m.lines, "\n  "))
}

// eachLine calls take with the lines of r that hold something, and their numbers. Comments begin with a #.
// A last line that does not end may be half of one: without the rest of its tag or name, it would name
// another image.
func eachLine(name string, r io.Reader, take func(number int, line string)) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for number := 1; ; number++ {
		data, err := lines.ReadSlice('\n')
		line, _, _ := strings.Cut(string(data), "#") // as oc image mirror has it; no reference has one
		line = strings.TrimSpace(line)
		switch {
		case errors.Is(err, io.EOF) && line == "":
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s, line %d: %q: the file ends in the middle of this line; end it with a line feed if it is whole", name, number, text.Cut(line, maxShown))
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%s, line %d: longer than %d bytes: %q", name, number, maxLine, text.Cut(line, maxShown))
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case number > MaxLines:
			return fmt.Errorf("%s: more than %s lines", name, text.Number(MaxLines))
		case line == "":
		default:
			take(number, line)
		}
	}
}

// maxShown is how much of a line with a mistake is repeated.
const maxShown = 120

// A ref is a reference, with its repository as nodes name it.
type ref struct {
	repository string
	version    string // ":" and a tag, or "@" and a digest; "" for neither
}

func (r ref) String() string { return r.repository + r.version }

// byDigest reports whether r is a reference by digest.
func (r ref) byDigest() bool { return strings.HasPrefix(r.version, "@") }

// parseRef reads a reference as oc-mirror and oc image mirror write them. The error describes its
// fault.
func parseRef(s string) (ref, error) {
	bare := strings.TrimPrefix(s, dockerTransport)
	repository, version, ok := mirrors.Canonical(bare)
	switch {
	case bare == "":
		return ref{}, errors.New("is missing")
	case !ok:
		return ref{}, fmt.Errorf("%q is no reference with a registry, such as registry.example.com:5000/team/app:v1", text.Cut(s, maxShown))
	case version == ":latest" && !strings.HasSuffix(bare, version):
		version = ""
	}
	return ref{repository, version}, nil
}

const dockerTransport = "docker://"
