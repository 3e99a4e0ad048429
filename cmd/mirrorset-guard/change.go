package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A change is what -f names: any number of mirror objects that are put, or
// deleted, together.
type change struct {
	files  []string
	delete bool
}

func (c *change) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&c.files, "filename", "f", nil, "file, folder or - (standard input) with the mirror objects to apply; may be repeated, all are one change")
	flags.BoolVar(&c.delete, "delete", false, "take the objects in -f away instead of applying them")
}

// read returns the change as an Edit, and how messages call it. Objects of other
// kinds are left out and named on stderr; a document that cannot be decoded is an
// error.
func (c *change) read(stdin io.Reader, stderr io.Writer) (mirrors.Edit, string, error) {
	var objects []mirrors.Object
	for _, name := range c.files {
		found, err := readObjects(name, stdin, stderr)
		if err != nil {
			return nil, "", err
		}
		objects = append(objects, found...)
	}
	if len(objects) == 0 {
		return nil, "", fmt.Errorf("no ImageTagMirrorSet, ImageDigestMirrorSet, ImageContentSourcePolicy, Image, ClusterImagePolicy or ImagePolicy in %s", strings.Join(c.files, ", "))
	}
	return c.edit(objects), c.subject(objects), nil
}

func (c *change) edit(objects []mirrors.Object) mirrors.Edit {
	edits := make([]mirrors.Edit, len(objects))
	for i, o := range objects {
		if c.delete {
			edits[i] = mirrors.Delete(o)
		} else {
			edits[i] = mirrors.Put(o)
		}
	}
	return mirrors.All(edits...)
}

func (c *change) subject(objects []mirrors.Object) string {
	switch n := len(objects); {
	case n > 1 && c.delete:
		return fmt.Sprintf("Deleting %d objects", n)
	case n > 1:
		return fmt.Sprintf("The change of %d objects", n)
	case c.delete:
		return "Deleting " + mirrors.NameOf(objects[0])
	default:
		return mirrors.NameOf(objects[0])
	}
}

// readObjects reads the mirror objects of one -f argument.
func readObjects(name string, stdin io.Reader, stderr io.Writer) ([]mirrors.Object, error) {
	if name == "-" {
		return parseObjects("standard input", stdin, stderr)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	paths := []string{name}
	if info.IsDir() {
		if paths, err = manifestsBelow(name); err != nil {
			return nil, err
		}
	}
	var objects []mirrors.Object
	for _, path := range paths {
		found, err := parseFile(path, stderr)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func manifestsBelow(folder string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

func parseFile(path string, stderr io.Writer) ([]mirrors.Object, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return parseObjects(path, file, stderr)
}

// parseObjects reads the documents of r, flattening Lists.
func parseObjects(name string, r io.Reader, stderr io.Writer) ([]mirrors.Object, error) {
	var objects []mirrors.Object
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for n := 1; ; n++ {
		var doc json.RawMessage
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", name, n, err)
		}
		found, err := parseDocument(doc)
		if errors.Is(err, mirrors.ErrKind) {
			fmt.Fprintf(stderr, "mirrorset-guard: %s, document %d left out: %v\n", name, n, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", name, n, err)
		}
		objects = append(objects, found...)
	}
}

// parseDocument reads one object, or the items of a List. An empty document holds
// none.
func parseDocument(doc json.RawMessage) ([]mirrors.Object, error) {
	if len(doc) == 0 || string(doc) == "null" {
		return nil, nil
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(doc, &list); err == nil && strings.HasSuffix(list.Kind, "List") && list.Items != nil {
		var objects []mirrors.Object
		for _, item := range list.Items {
			found, err := parseDocument(item)
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
		}
		return objects, nil
	}
	object, err := mirrors.Parse(doc)
	if err != nil {
		return nil, err
	}
	if object.GetName() == "" {
		return nil, fmt.Errorf("%s: metadata.name is empty", mirrors.KindOf(object))
	}
	return []mirrors.Object{object}, nil
}
