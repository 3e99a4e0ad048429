package foreseen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A DeleteList says what will be deleted at registries: what oc-mirror delete --generate writes as
// delete-images.yaml, or references.
type DeleteList struct {
	name  string
	items []item
	// at are the items by repository.
	at map[string]*deleted
}

// An item of a list.
type item struct {
	ref
	// digest is the one that the manifest was copied by, as far as the list says; "" if it does not.
	digest string
}

// deleted is what is deleted in one repository: the numbers of the items, from 1, by their tags with the
// colon, and by digest.
type deleted struct {
	tags, digests map[string]int
	// unknown is an item by tag of which it is not known which digest goes with it; 0 for none.
	unknown int
}

// maxList bounds a list in bytes. An item of oc-mirror's has 400.
const maxList = 1 << 30

// ReadDeleteList reads oc-mirror's DeleteImageList, or references, a line each. Name is what messages
// call the file. The error names all mistakes, with the items or lines.
func ReadDeleteList(name string, r io.Reader) (*DeleteList, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxList+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxList:
		return nil, fmt.Errorf("%s: larger than %d MiB", name, maxList>>20)
	}
	l := &DeleteList{name: name, at: map[string]*deleted{}}
	if isDocument(data) {
		err = l.readDocument(data)
	} else {
		err = l.readLines(data)
	}
	if err == nil && len(l.items) == 0 {
		err = fmt.Errorf("%s: nothing to delete", name)
	}
	if err != nil {
		return nil, err
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

// A deleteImageList is the format of oc-mirror (v2/internal/pkg/api/v2alpha1, DeleteImageList), with
// the fields that former versions wrote.
type deleteImageList struct {
	Kind       string       `yaml:"kind"`
	APIVersion string       `yaml:"apiVersion"`
	Items      []deleteItem `yaml:"items"`
}

type deleteItem struct {
	ImageName      string   `yaml:"imageName"`
	ImageReference string   `yaml:"imageReference"`
	Type           any      `yaml:"type"`
	RelatedBlobs   []string `yaml:"relatedBlobs"`
}

const deleteImageListKind = "DeleteImageList"

func (l *DeleteList) readDocument(data []byte) error {
	var head struct {
		Kind string `yaml:"kind"`
	}
	var list deleteImageList
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.SetStrict(true)
	err := decoder.Decode(&list)
	if err != nil && yaml.Unmarshal(data, &head) == nil && head.Kind != "" {
		list.Kind = head.Kind
	}
	switch {
	case list.Kind == "DeleteImageSetConfiguration", list.Kind == "ImageSetConfiguration":
		return fmt.Errorf("%s: kind %s says what to select; give the %s that oc mirror delete --generate makes of it", l.name, list.Kind, deleteImageListKind)
	case err != nil:
		return fmt.Errorf("%s: %s", l.name, text.Line(err.Error()))
	case list.Kind != deleteImageListKind:
		return fmt.Errorf("%s: kind: Invalid value: %q: want %s", l.name, list.Kind, deleteImageListKind)
	case !strings.HasPrefix(list.APIVersion, "mirror.openshift.io/"):
		return fmt.Errorf("%s: apiVersion: Invalid value: %q: want mirror.openshift.io/v2alpha1", l.name, list.APIVersion)
	}
	if err := decoder.Decode(&head); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one document", l.name)
	}
	var wrong mistakes
	if len(list.Items) > MaxLines {
		return fmt.Errorf("%s: more than %s items", l.name, text.Number(MaxLines))
	}
	for i, it := range list.Items {
		r, err := parseRef(it.ImageReference)
		if err != nil {
			wrong.add("%s: items[%d].imageReference: %v", l.name, i, err)
			continue
		}
		l.add(r, digestIn(it.ImageName))
	}
	return wrong.err()
}

// digestIn returns the digest in a reference, "" if there is none.
func digestIn(reference string) string {
	r, err := parseRef(reference)
	if err != nil || !r.byDigest() {
		return ""
	}
	return r.version[1:]
}

func (l *DeleteList) readLines(data []byte) error {
	var wrong mistakes
	err := eachLine(l.name, bytes.NewReader(data), func(number int, line string) {
		r, err := parseRef(line)
		if err != nil {
			wrong.add("%s, line %d: %v", l.name, number, err)
			return
		}
		l.add(r, "")
	})
	return errors.Join(err, wrong.err())
}

// add enters an item. One without a tag and digest means :latest, as it does for skopeo delete.
func (l *DeleteList) add(r ref, digest string) {
	if r.version == "" {
		r.version = ":latest"
	}
	l.items = append(l.items, item{r, digest})
	d := l.at[r.repository]
	if d == nil {
		d = &deleted{tags: map[string]int{}, digests: map[string]int{}}
		l.at[r.repository] = d
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
		host, _, _ := strings.Cut(repository, "/")
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// called is how messages call an item.
func (l *DeleteList) called(number int) string {
	return fmt.Sprintf("item %d of %s (%s)", number, l.name, l.items[number-1].ref)
}
