package whatif

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A DeleteList lists the images to be deleted at registries, as oc-mirror delete --generate writes them
// to delete-images.yaml, or as references.
type DeleteList struct {
	name  string
	items []item
	// at are the items by repository, in one spelling.
	at map[string]*deleted
}

// An item of a list.
type item struct {
	ref
	// digest is the one that the manifest was copied by; "" if the list does not say.
	digest string
}

// deleted are the deletions in one repository: the numbers of the items, from 1, by their tags with the
// colon, and by digest.
type deleted struct {
	tags, digests map[string]int
	// unknown is an item by tag whose digest is not known; 0 for none.
	unknown int
}

// maxList bounds a list in bytes. An item of oc-mirror's has 400, and takes some ten times as much while it is decoded.
const maxList = 64 << 20

// ReadDeleteList reads oc-mirror's DeleteImageList, or references, a line each. Name is what messages
// call the file. The error names all mistakes, with the items or lines.
func ReadDeleteList(name string, r io.Reader) (*DeleteList, error) {
	l := &DeleteList{name: name, at: map[string]*deleted{}}
	data, err := io.ReadAll(io.LimitReader(r, maxList+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxList:
		return nil, fmt.Errorf("%s: larger than %d MiB", name, maxList>>20)
	case isDocument(data):
		err = l.readDocument(data)
	default:
		err = l.readLines(bytes.NewReader(data))
	}
	switch {
	case err != nil:
		return nil, err
	case len(l.items) == 0:
		return nil, fmt.Errorf("%s: nothing to delete", name)
	}
	return l, nil
}

// DeleteReferences returns the list of references, as they are given on a command line.
func DeleteReferences(references []string) (*DeleteList, error) {
	return ReadDeleteList("the command line", strings.NewReader(strings.Join(references, "\n")+"\n"))
}

// isDocument reports whether data is an object in YAML or JSON: lines of references have no ": ".
func isDocument(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		return line[0] == '{' || bytes.HasPrefix(line, []byte("---")) || bytes.Contains(line, []byte(": ")) || bytes.HasSuffix(line, []byte(":"))
	}
	return false
}

// digestIn returns the digest in a reference, "" if there is none.
func digestIn(reference string) string {
	r, err := parseRef(reference)
	if err != nil || !r.byDigest() {
		return ""
	}
	return r.version[1:]
}

func (l *DeleteList) readLines(r io.Reader) error {
	var wrong mistakes
	err := eachLine(l.name, r, func(number int, line string) {
		r, err := parseItem(line)
		if err != nil {
			wrong.add("%s, line %d: %v", l.name, number, err)
			return
		}
		l.add(r, "")
	})
	return errors.Join(err, wrong.err())
}

// parseItem reads the reference of an item. One of a repository may be meant to be all that it has, where
// skopeo delete takes it for :latest.
func parseItem(s string) (ref, error) {
	r, err := parseRef(s)
	if err == nil && r.version == "" {
		err = fmt.Errorf("%q has no tag and no digest: name each that is deleted (:latest is what skopeo delete takes it for)", text.Cut(s, maxShown))
	}
	return r, err
}

func (l *DeleteList) add(r ref, digest string) {
	l.items = append(l.items, item{r, digest})
	repository := mirrors.OneSpelling(r.repository)
	d := l.at[repository]
	if d == nil {
		d = &deleted{tags: map[string]int{}, digests: map[string]int{}}
		l.at[repository] = d
	}
	if r.byDigest() {
		d.addDigest(r.version[1:], len(l.items))
	} else if d.tags[r.version] == 0 {
		d.tags[r.version] = len(l.items)
	}
}

func (d *deleted) addDigest(digest string, number int) {
	if d.digests[digest] == 0 {
		d.digests[digest] = number
	}
}

// registries returns the hosts at which the list deletes something, sorted.
func (l *DeleteList) registries() []string {
	var hosts []string
	for repository := range l.at {
		hosts = append(hosts, mirrors.HostOf(repository))
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// called is how messages call an item.
func (l *DeleteList) called(number int) string {
	return fmt.Sprintf("item %d of %s (%s)", number, l.name, l.items[number-1].ref)
}
