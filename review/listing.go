package review

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Selection selects images of an inventory. The zero value selects all of them.
type Selection struct {
	Namespace string // of a consumer
	Registry  string // or a scope below one
	Unused    bool   // those that no pod runs
	Rescue    bool   // those of the rescue set
}

// SelectionFrom reads a Selection from the query of a URL, whose parameters are
// called as the flags are.
func SelectionFrom(query url.Values) (Selection, error) {
	var s Selection
	for key, values := range query {
		value := values[len(values)-1]
		var err error
		switch key {
		case "namespace":
			s.Namespace = value
		case "registry":
			s.Registry = value
		case "unused":
			s.Unused, err = strconv.ParseBool(value)
		case "rescue":
			s.Rescue, err = strconv.ParseBool(value)
		default:
			return s, fmt.Errorf("%q: there is no such parameter; choose among namespace, registry, unused and rescue", key)
		}
		if err != nil {
			return s, fmt.Errorf("%s=%q: want true or false", key, value)
		}
	}
	return s, nil
}

// Of returns those of images that s wants.
func (s Selection) Of(images []policy.Image) []policy.Image {
	if s == (Selection{}) {
		return images
	}
	var wanted []policy.Image
	for _, img := range images {
		if s.wants(img) {
			wanted = append(wanted, img)
		}
	}
	return wanted
}

func (s Selection) wants(img policy.Image) bool {
	if s.Rescue && !img.IsRescue() {
		return false
	}
	if s.Unused && img.Use() == policy.Running {
		return false
	}
	if s.Namespace != "" && !slices.ContainsFunc(img.Consumers, func(c policy.Consumer) bool { return c.Namespace == s.Namespace }) {
		return false
	}
	return s.Registry == "" || mirrors.IsBelow(img.Ref, s.Registry)
}

// StreamInventory writes what the command inventory does with -o json, image by image: all of it, for
// 100,000 references, is hundreds of megabytes. Before the images comes the next release, unless that is nil.
func StreamInventory(to io.Writer, release *v1alpha1.NextRelease, images []policy.Image) error {
	w := bufio.NewWriterSize(to, 64<<10)
	doc := InventoryDocument(nil)
	doc.Release = release
	empty, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	empty = text.JSON(empty)
	list := bytes.LastIndex(empty, []byte("[]")) // of images, which comes last
	head, tail := empty[:list], empty[list+len("[]"):]
	fmt.Fprintf(w, "%s[", head)
	separator := "\n    "
	for i := range images {
		data, err := json.MarshalIndent(InventoryDocument(images[i : i+1]).Images[0], "    ", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s%s", separator, text.JSON(data))
		separator = ",\n    "
	}
	if len(images) > 0 {
		fmt.Fprint(w, "\n  ")
	}
	fmt.Fprintf(w, "]%s\n", tail)
	return w.Flush() // which has the error of any Write before
}
