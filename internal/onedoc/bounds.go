package onedoc

import (
	"bytes"
	"fmt"
	"regexp"

	goyamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

const (
	// maxAliased bounds what the aliases of a document stand for, in bytes. Next to none have any.
	maxAliased = 1 << 20
	// maxValues bounds the values of a document: each takes some hundred bytes while it is read. The largest definition of a
	// kind in github.com/openshift/api has 20,000.
	maxValues = 500_000
)

// Unmarshal reads a document that somebody else made, by the JSON tags of into. It refuses one that takes far more memory to
// read than it has bytes.
func Unmarshal(data []byte, into any) error {
	if n := mostValues(data); n > maxValues {
		return fmt.Errorf("it may have %s values, more than are read (%s)", text.Number(n), text.Number(maxValues))
	}
	if err := checkAliases(data); err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}

// mostValues returns a number that the values of a document are not above by much: each but the first follows one of these
// characters.
func mostValues(data []byte) int {
	n := 1
	for _, c := range data {
		switch c {
		case ',', ':', '-', '?', '[', '{', '\n', '\r':
			n++
		}
	}
	return n
}

// The parser accepts no other characters at the beginning of the name of an anchor. UTF-16 has zeros between them.
var (
	anchor = regexp.MustCompile(`&[0-9A-Za-z_-]`)
	alias  = regexp.MustCompile(`\*[0-9A-Za-z_-]`)
)

// checkAliases returns an error if the aliases of a document stand for too much: in JSON, each is a copy, and so is each of
// those within it.
func checkAliases(data []byte) error {
	if bytes.IndexByte(data, 0) < 0 && (!alias.Match(data) || !anchor.Match(data)) {
		return nil
	}
	var document goyamlv3.Node // which has an alias as a reference
	if err := goyamlv3.Unmarshal(data, &document); err != nil {
		return err
	}
	e := expansion{most: len(data) + maxAliased, sizes: map[*goyamlv3.Node]int{}}
	_, err := e.size(&document)
	return err
}

// An expansion is a document with copies in place of its aliases.
type expansion struct {
	most  int
	sizes map[*goyamlv3.Node]int // of what aliases refer to, 0 while it is counted
}

// size returns about how many bytes a value has.
func (e *expansion) size(n *goyamlv3.Node) (int, error) {
	if n.Kind == goyamlv3.AliasNode {
		return e.size(n.Alias)
	}
	if n.Anchor != "" {
		if size, ok := e.sizes[n]; ok && size == 0 {
			return 0, fmt.Errorf("the anchor %s contains itself", text.Line(text.Cut(n.Anchor, maxShown)))
		} else if ok {
			return size, nil
		}
		e.sizes[n] = 0
	}
	sum := len(n.Value) + 1
	for _, child := range n.Content {
		size, err := e.size(child)
		if err != nil {
			return 0, err
		}
		if sum += size; sum > e.most {
			return 0, fmt.Errorf("its aliases stand for more than %d MiB", maxAliased>>20)
		}
	}
	if n.Anchor != "" {
		e.sizes[n] = sum
	}
	return sum, nil
}

// maxShown is how much is shown of a name.
const maxShown = 100
