package foreseen

import (
	"fmt"
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A Mapping says what a mirroring that has not been done would copy, and where: what oc-mirror --dry-run
// writes as mapping.txt, and oc image mirror -f reads. It is immutable.
type Mapping struct {
	name  string
	lines int
	// to are the copies by repository.
	to map[string]*copies
}

// copies are those to one repository.
type copies struct {
	byTag    map[string]origin // the tags with their colons
	byDigest map[string]origin
	// tagged are the sources of byTag whose digests the mapping does not name.
	tagged []origin
}

// An origin is the place that a copy comes from.
type origin struct {
	ref
	// other is a source that is no registry: a folder or an archive. ref is zero then.
	other string
	line  int
}

func (o origin) String() string {
	if o.other != "" {
		return o.other
	}
	return o.ref.String()
}

// ReadMapping reads lines SOURCE=DESTINATION, with or without docker:// in front of either. Name is what
// messages call the file. The error names all mistakes, with their lines.
func ReadMapping(name string, r io.Reader) (*Mapping, error) {
	m := &Mapping{name: name, to: map[string]*copies{}}
	var wrong mistakes
	names := map[string]string{} // repositories, each once: a line would be kept as a whole
	err := eachLine(name, r, func(number int, line string) {
		m.lines++
		if err := m.add(number, line, names); err != nil {
			wrong.add("%s, line %d: %v", name, number, err)
		}
	})
	if err == nil {
		err = wrong.err()
	}
	if err == nil && m.lines == 0 {
		err = fmt.Errorf("%s: no line SOURCE=DESTINATION", name)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// add enters a line.
func (m *Mapping) add(number int, line string, names map[string]string) error {
	source, destination, found := strings.Cut(line, "=")
	if !found || strings.Contains(destination, "=") {
		return fmt.Errorf("%q: want SOURCE=DESTINATION", text.Cut(line, maxShown))
	}
	to, err := parseRef(destination)
	if err != nil {
		return fmt.Errorf("the destination %w", err)
	}
	from := origin{line: number}
	if isOther(source) {
		from.other = strings.Clone(source)
	} else if from.ref, err = parseRef(source); err != nil {
		return fmt.Errorf("the source %w", err)
	}
	if to.byDigest() && from.byDigest() && to.version != from.version {
		return fmt.Errorf("%q: the digest of the destination is not that of the source", text.Cut(line, maxShown))
	}
	if from.version == "" && from.other == "" {
		from.version = ":latest"
	}
	from.repository, from.version = once(names, from.repository), strings.Clone(from.version)
	return m.at(once(names, to.repository)).put(strings.Clone(to.version), from)
}

// isOther reports whether a source is no registry, such as oci:///catalog or file://dir.
func isOther(source string) bool {
	return strings.HasPrefix(source, "oci:") || strings.Contains(source, "://") && !strings.HasPrefix(source, dockerTransport)
}

func once(names map[string]string, s string) string {
	if known, ok := names[s]; ok {
		return known
	}
	s = strings.Clone(s)
	names[s] = s
	return s
}

func (m *Mapping) at(repository string) *copies {
	c := m.to[repository]
	if c == nil {
		c = &copies{byTag: map[string]origin{}, byDigest: map[string]origin{}}
		m.to[repository] = c
	}
	return c
}

// put enters a copy to version. A source with a digest is found under that as well, whatever tag it
// gets. A tag cannot come from two places: which it would be in the end nobody knows.
func (c *copies) put(version string, from origin) error {
	if strings.HasPrefix(version, ":") {
		if before, twice := c.byTag[version]; twice && !before.sameContent(from) {
			return fmt.Errorf("the tag %s comes from %s, and in line %d from %s", version[1:], from, before.line, before)
		}
		c.byTag[version] = from
	}
	switch digest := from.version; {
	case from.byDigest():
		c.byDigest[digest[1:]] = from
	case strings.HasPrefix(version, "@"):
		c.byDigest[version[1:]] = from
	case from.other == "":
		c.tagged = append(c.tagged, from)
	}
	return nil
}

// sameContent reports whether two sources are sure to be of one content.
func (o origin) sameContent(other origin) bool {
	return o.byDigest() && o.version == other.version || o.ref == other.ref && o.other == other.other
}

// evidence is what a fact that rests on a copy from o says of it.
func (m *Mapping) evidence(o origin) string {
	return fmt.Sprintf("%s, line %d, copies it from %s", m.name, o.line, o)
}
