package whatif

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

const (
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestReadMapping(t *testing.T) {
	for _, tt := range []struct {
		reason, text, at, from string // from is "" where nothing is copied
	}{
		{"oc-mirror, by tag", "docker://quay.io/shop/cart:v1=docker://m.example.com:5000/a/b/shop/cart:v1\n", "m.example.com:5000/a/b/shop/cart:v1", "quay.io/shop/cart:v1"},
		{"oc-mirror, a digest to a tag that is made of it", "docker://quay.io/shop/cart@" + digestA + "=docker://m.example.com/shop/cart:" + digestA[7:] + "\n", "m.example.com/shop/cart@" + digestA, "quay.io/shop/cart@" + digestA},
		{"and to that tag", "docker://quay.io/shop/cart@" + digestA + "=docker://m.example.com/shop/cart:" + digestA[7:] + "\n", "m.example.com/shop/cart:" + digestA[7:], "quay.io/shop/cart@" + digestA},
		{"a tag says nothing of a digest", "quay.io/shop/cart:v1=m.example.com/shop/cart:v1\n", "m.example.com/shop/cart@" + digestA, ""},
		{"oc image mirror, without a transport and a tag at the destination", "quay.io/shop/cart@" + digestA + "=m.example.com/shop/cart\n", "m.example.com/shop/cart@" + digestA, "quay.io/shop/cart@" + digestA},
		{"another tag", "quay.io/shop/cart:v1=m.example.com/shop/cart:v1\n", "m.example.com/shop/cart:v2", ""},
		{"no tag at the source", "quay.io/shop/cart=m.example.com/shop/cart:v1\n", "m.example.com/shop/cart:v1", "quay.io/shop/cart:latest"},
		{"Docker Hub under its short path", "docker.io/nginx:1=m.example.com/nginx:1\n", "m.example.com/nginx:1", "docker.io/library/nginx:1"},
		{"comments and empty lines", "# a comment\n\n  quay.io/shop/cart:v1=m.example.com/shop/cart:v1  \r\n", "m.example.com/shop/cart:v1", "quay.io/shop/cart:v1"},
		{"a source on a disk", "oci:///catalogs/mine=docker://m.example.com/mine:v1\n", "m.example.com/mine:v1", "oci:///catalogs/mine"},
		{"one image twice", "quay.io/a@" + digestA + "=m.example.com/a:v1\nquay.io/b@" + digestA + "=m.example.com/a:v1\n", "m.example.com/a:v1", "quay.io/b@" + digestA},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			m, err := ReadMapping("mapping.txt", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			to, err := parseRef(tt.at)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if c := m.to[to.repository]; c != nil {
				if from, ok := m.from(c, to.version); ok {
					got = from.String()
				}
			}
			if got != tt.from {
				t.Errorf("%q, want %q", got, tt.from)
			}
		})
	}
}

func TestReadMappingBadInput(t *testing.T) {
	const good = "quay.io/shop/cart:v1=m.example.com/shop/cart:v1\n"
	for _, tt := range []struct{ reason, text, want string }{
		{"nothing", "", "mapping.txt: no line SOURCE=DESTINATION"},
		{"only comments", "# nothing\n", "mapping.txt: no line SOURCE=DESTINATION"},
		{"half a line", good + "quay.io/shop/ca", `mapping.txt, line 2: "quay.io/shop/ca": the file ends in the middle of this line; end it with a line feed if it is whole`},
		{"a line that may be half of one", good + "quay.io/shop/cart:v2=m.example.com/shop/cart:v", `mapping.txt, line 2: "quay.io/shop/cart:v2=m.example.com/shop/cart:v": the file ends in the middle of this line; end it with a line feed if it is whole`},
		{"no destination", "quay.io/shop/cart:v1\n", `mapping.txt, line 1: "quay.io/shop/cart:v1": want SOURCE=DESTINATION`},
		{"two destinations", "a.example.com/x:1=b.example.com/x:1=c.example.com/x:1\n", `mapping.txt, line 1: "a.example.com/x:1=b.example.com/x:1=c.example.com/x:1": want SOURCE=DESTINATION`},
		{"an empty destination", good + "quay.io/shop/cart:v1=docker://\n", "mapping.txt, line 2: the destination is missing"},
		{"no registry", good + "quay.io/shop/cart:v1=shop/cart:v1\n", `mapping.txt, line 2: the destination "shop/cart:v1" is no reference with a registry, such as registry.example.com:5000/team/app:v1`},
		{"a cut digest", "quay.io/shop/cart@sha256:abc=m.example.com/shop/cart:v1\n", `mapping.txt, line 1: the source "quay.io/shop/cart@sha256:abc" is no reference with a registry, such as registry.example.com:5000/team/app:v1`},
		{"another digest", "quay.io/a@" + digestA + "=m.example.com/a@" + digestB + "\n", `mapping.txt, line 1: "quay.io/a@` + digestA + `=m.example.com/a@`},
		{"to a disk", "quay.io/shop/cart:v1=file://cart:v1\n", `mapping.txt, line 1: the destination "file://cart:v1" is no reference`},
		{"two sources of a tag", good + "quay.io/shop/cart:v2=m.example.com/shop/cart:v1\n", "mapping.txt, line 2: the tag v1 comes from quay.io/shop/cart:v2, and in line 1 from quay.io/shop/cart:v1"},
		{"a very long line", strings.Repeat("x", 2*maxLine) + "\n", "mapping.txt, line 1: longer than 4096 bytes"},
		{"many mistakes", strings.Repeat("x\n", 20), "and 10 more"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			m, err := ReadMapping("mapping.txt", strings.NewReader(tt.text))
			if m != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestTooManyLines: a file that does not end is given up.
func TestTooManyLines(t *testing.T) {
	var lines endless
	_, err := ReadMapping("mapping.txt", &lines)
	if want := "mapping.txt: more than 2,000,000 lines"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if most := int64(len(line)*MaxLines + 2*maxLine); lines.read > most {
		t.Errorf("%d bytes were read, want %d at most", lines.read, most)
	}
}

// endless are lines without end, and how much of them was read.
type endless struct{ read int64 }

const line = "#\n"

// Read implements io.Reader.
func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, strings.Repeat(line, max(len(p)/len(line), 1)))
	e.read += int64(n)
	return n, nil
}

// TestManyLines: the lines are read as they come.
func TestManyLines(t *testing.T) { readMany(t, 50_000) }

// BenchmarkMillionLines takes 3 s and 430 MB each.
func BenchmarkMillionLines(b *testing.B) {
	for b.Loop() {
		readMany(b, 1_000_000)
	}
}

func readMany(t testing.TB, n int) {
	t.Helper()
	m, err := ReadMapping("mapping.txt", &manyLines{most: n})
	if err != nil || m.lines != n {
		t.Fatal(m, err)
	}
}

// manyLines are the lines of a mapping, made as they are read.
type manyLines struct {
	n, most int
	rest    []byte
}

// Read implements io.Reader.
func (r *manyLines) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.n == r.most {
			return 0, io.EOF
		}
		i := r.n
		r.rest = fmt.Appendf(r.rest[:0], "docker://quay.io/team-%d/app-%d@sha256:%064x=docker://m.example.com:8443/mirror/team-%d/app-%d:%064x\n", i%100, i%5000, i, i%100, i%5000, i)
		r.n++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
