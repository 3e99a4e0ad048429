package whatif

import (
	"fmt"
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Mapping lists the copies of a mirroring that has not been done, as oc-mirror --dry-run writes them
// to mapping.txt, and oc image mirror -f reads them. It is immutable.
type Mapping struct {
	name  string
	lines int
	// origins are the sources, a line each.
	origins []origin
	// to are the copies by repository.
	to map[string]*copies
}

// copies are those to one repository: the numbers of their origins, by the tags with their colons and
// by digest.
type copies struct {
	byTag, byDigest map[string]int32
	// tagged are the origins by tag whose digests the mapping does not name.
	tagged []int32
}

// An origin is the place that a copy comes from. Of a folder or an archive, repository is empty and
// version is the whole source (oci:///catalog).
type origin struct {
	ref
	line int32
}

func (o origin) isOther() bool { return o.repository == "" }

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
	from := origin{line: int32(number)} //nolint:gosec // at most MaxLines
	if strings.HasPrefix(source, "oci:") || strings.Contains(source, "://") && !strings.HasPrefix(source, dockerTransport) {
		from.version = source // no registry, such as oci:///catalog or file://dir
	} else if from.ref, err = parseRef(source); err != nil {
		return fmt.Errorf("the source %w", err)
	}
	if to.byDigest() && from.byDigest() && to.version != from.version {
		return fmt.Errorf("%q: the digest of the destination is not that of the source", text.Cut(line, maxShown))
	}
	if from.version == "" {
		from.version = ":latest"
	}
	from.repository, from.version = once(names, from.repository), strings.Clone(from.version)
	return m.put(m.at(once(names, mirrors.OneSpelling(to.repository))), strings.Clone(to.version), from)
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
		c = &copies{byTag: map[string]int32{}, byDigest: map[string]int32{}}
		m.to[repository] = c
	}
	return c
}

// put enters a copy to version. A source with a digest is found under that as well, whatever tag it
// gets. A tag cannot come from two places: the last copy would win, and the order is unknown.
func (m *Mapping) put(c *copies, version string, from origin) error {
	number := int32(len(m.origins)) //nolint:gosec // at most MaxLines
	if strings.HasPrefix(version, ":") {
		if k, twice := c.byTag[version]; twice && !m.origins[k].sameContent(from) {
			return fmt.Errorf("the tag %s comes from %s, and in line %d from %s", version[1:], from, m.origins[k].line, m.origins[k])
		}
		c.byTag[version] = number
	}
	switch {
	case from.byDigest():
		c.byDigest[from.version[1:]] = number
	case strings.HasPrefix(version, "@"):
		c.byDigest[version[1:]] = number
	case !from.isOther():
		c.tagged = append(c.tagged, number)
	}
	m.origins = append(m.origins, from)
	return nil
}

// from returns the origin of the copy to version of a repository; false if nothing is copied there.
func (m *Mapping) from(c *copies, version string) (origin, bool) {
	number, ok := c.byTag[version]
	if digest, by := strings.CutPrefix(version, "@"); by {
		number, ok = c.byDigest[digest]
	}
	if !ok {
		return origin{}, false
	}
	return m.origins[number], true
}

// sameContent reports whether two sources are sure to be of one content.
func (o origin) sameContent(other origin) bool {
	return o.byDigest() && o.version == other.version || o.ref == other.ref
}

// evidence is what a fact that rests on a copy from o says of it.
func (m *Mapping) evidence(o origin) string {
	return fmt.Sprintf("%s, line %d, copies it from %s", m.name, o.line, o)
}
