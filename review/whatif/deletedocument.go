package whatif

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v2"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// A deleteImageList is the format of oc-mirror (v2/internal/pkg/api/v2alpha1, DeleteImageList), with
// the fields that former versions wrote.
type deleteImageList struct {
	Kind       string       `yaml:"kind"`
	APIVersion string       `yaml:"apiVersion"`
	Items      []deleteItem `yaml:"items"`
}

type deleteItem struct {
	ImageName      string  `yaml:"imageName"`
	ImageReference string  `yaml:"imageReference"`
	Type           ignored `yaml:"type"`
	RelatedBlobs   ignored `yaml:"relatedBlobs"`
}

// ignored is a field whose value is not kept.
type ignored struct{}

// UnmarshalYAML implements yaml.Unmarshaler.
func (*ignored) UnmarshalYAML(func(any) error) error { return nil }

const deleteImageListKind = "DeleteImageList"

// readDocument reads a DeleteImageList.
func (l *DeleteList) readDocument(data []byte) error {
	var list deleteImageList
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.SetStrict(true)
	err := decoder.Decode(&list) // with an unknown field, the others are read all the same
	if err == nil && !errors.Is(decoder.Decode(new(ignored)), io.EOF) {
		err = errors.New("more than one document")
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
	var wrong mistakes
	for i, it := range list.Items {
		r, err := parseItem(it.ImageReference)
		if err != nil {
			wrong.add("%s: items[%d].imageReference: %v", l.name, i, err)
			continue
		}
		l.add(r, digestIn(it.ImageName))
	}
	return wrong.err()
}
