package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

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

// read returns the change as an Edit. Objects of other
// kinds are left out and named on stderr. The error names all that an API server would
// refuse, with file, document and field.
func (c *change) read(stdin io.Reader, stderr io.Writer) (mirrors.Edit, error) {
	r := changeReader{stderr: stderr, delete: c.delete}
	for _, name := range c.files {
		if err := r.argument(name, stdin); err != nil {
			return mirrors.Edit{}, err
		}
	}
	if err := r.err(); err != nil {
		return mirrors.Edit{}, err
	}
	if len(r.objects) == 0 {
		return mirrors.Edit{}, fmt.Errorf("no ImageTagMirrorSet, ImageDigestMirrorSet, ImageContentSourcePolicy, Image, ClusterImagePolicy or ImagePolicy in %s", strings.Join(c.files, ", "))
	}
	return c.edit(r.objects), nil
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
	return mirrors.Join(edits...)
}

// argument reads one -f argument.
func (r *changeReader) argument(name string, stdin io.Reader) error {
	if name == "-" {
		r.stream("standard input", stdin)
		return nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	paths := []string{name}
	if info.IsDir() {
		if paths, err = manifestsBelow(name); err != nil {
			return err
		}
		if len(paths) == 0 { // kubectl refuses it too: it is a mistake in the path
			r.mistake(name, "no .yaml, .yml or .json file in the folder")
		}
	}
	for _, path := range paths {
		if err := r.file(path); err != nil {
			return err
		}
	}
	return nil
}

func manifestsBelow(folder string) ([]string, error) {
	var paths []string
	// With the separator, a link to a folder is one.
	err := filepath.WalkDir(folder+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

func (r *changeReader) file(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r.stream(path, file)
	return nil
}
