package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/layers"
)

// The limits of what is read of a catalog. Those of Red Hat declare some 10,000 objects in some hundreds of MB, and have
// a cache beside that is as large again.
const (
	// maxScanned bounds what layers have, unpacked. It bounds time, as nothing of it is kept.
	maxScanned = 4 << 30
	// maxFile bounds a file.
	maxFile = 512 << 20
	// maxObject bounds an object in a file. The largest have whole CRDs in them.
	maxObject = 8 << 20
	// maxValues bounds the values in an object about a package that was asked for, counted before it is decoded: an empty one
	// takes a hundred times its text.
	maxValues = 200_000
	// maxObjects bounds the objects.
	maxObjects = 1_000_000
	// maxConfig is the largest config that nodes read (containers/image, internal/iolimits).
	maxConfig = 4 << 20
	// maxName is the length of names of objects, which those of bundles become, and maxRequires bounds what a bundle requires.
	maxName     = 253
	maxRequires = 100
	// maxKept bounds what is kept of the packages that were asked for.
	maxKept = 32 << 20
)

// configsLabel names the folder of a file-based catalog, and databaseLabel the file of one of the kind before.
const (
	configsLabel  = "operators.operatorframework.io.index.configs.v1"
	databaseLabel = "operators.operatorframework.io.index.database.v1"
)

// ErrNoCatalog is wrapped by the error of an image that is no file-based catalog, or one that cannot be read.
var ErrNoCatalog = errors.New("it is no file-based catalog that can be read")

// A Catalog is a catalog as far as it was read.
type Catalog struct {
	// Packages are those that were asked for and that it declares.
	Packages map[string]*Package
	// Objects is how many objects it declares.
	Objects int
}

// Read reads what a catalog says of packages. The error wraps ErrNoCatalog if reading it again does not help.
func Read(ctx context.Context, image v1.Image, packages []string) (*Catalog, error) {
	return read(ctx, image, packages, maxScanned)
}

func read(ctx context.Context, image v1.Image, packages []string, most int64) (*Catalog, error) {
	folder, err := folderOf(image)
	if err != nil {
		return nil, err
	}
	reader, err := layers.New(image, folder, most)
	if err != nil {
		return nil, err
	}
	r := &reading{wanted: map[string][]byte{}, catalog: &Catalog{Packages: map[string]*Package{}}}
	for _, name := range packages {
		r.wanted[name] = []byte(name)
		r.unusual = r.unusual || strings.Trim(name, usual) != ""
	}
	fault := new(layers.Fault)
	for {
		r.layer = nil
		err := reader.Next(ctx, r.file)
		switch {
		case errors.Is(err, io.EOF):
			return r.catalog, r.end(ctx)
		case errors.As(err, &fault):
			return nil, fmt.Errorf("%w: %w", ErrNoCatalog, err)
		case errors.Is(err, layers.ErrTooMuch):
			return nil, fmt.Errorf("%w: %w (%d MiB)", ErrNoCatalog, err, most>>20)
		case err != nil:
			return nil, err
		}
		r.objects = append(r.objects, r.layer...)
	}
}

// folderOf returns the folder of the catalog, without a slash at its beginning.
func folderOf(image v1.Image) (string, error) {
	manifest, err := image.Manifest()
	switch {
	case err != nil:
		return "", fmt.Errorf("reading its manifest: %w", err)
	case manifest.Config.Size > maxConfig:
		return "", fmt.Errorf("%w: its config has %d bytes, more than nodes read (%d)", ErrNoCatalog, manifest.Config.Size, maxConfig)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return "", fmt.Errorf("reading its config: %w", err)
	}
	label, ok := config.Config.Labels[configsLabel]
	switch _, old := config.Config.Labels[databaseLabel]; {
	case !ok && old:
		return "", fmt.Errorf("%w: it is a database, as catalogs were before (label %s)", ErrNoCatalog, databaseLabel)
	case !ok:
		return "", fmt.Errorf("%w: it has no label %s", ErrNoCatalog, configsLabel)
	}
	folder := strings.Trim(path.Clean("/"+label), "/")
	if folder == "" || strings.Contains(label, "..") || len(label) > maxReference {
		return "", fmt.Errorf("%w: its label %s is %q, which is no folder", ErrNoCatalog, configsLabel, shown(label))
	}
	return folder, nil
}

// maxReference is more than any registry accepts, and longer than any name.
const maxReference = 1_024

// A reading is a catalog that is being read.
type reading struct {
	wanted map[string][]byte
	// unusual is set if the name of one of them can be written in more ways than escapes has.
	unusual bool
	catalog *Catalog
	// objects are those of files, and ignored the lines that hide files.
	objects []object
	ignored []ignored
	// now is the file that is being read.
	now string
	// layer are the objects of the layer that is being read: they count once its digest was found to be right.
	layer []object
	kept  int // bytes
}

// An object is a declaration about a package that was asked for.
type object struct {
	Schema  string `json:"schema"`
	Package string `json:"package"`
	Name    string `json:"name"`
	// Of a package:
	DefaultChannel string `json:"defaultChannel"`
	// Of a channel, and of deprecations:
	Entries []entry `json:"entries"`
	// Of a bundle:
	Image      string     `json:"image"`
	Related    []Related  `json:"relatedImages"`
	Properties []property `json:"properties"`
	file       string
	// What the properties say:
	version  string
	requires []Requirement
	provides []Kind
}

// An entry is one of a channel, or a reference to what is deprecated.
type entry struct {
	Entry
	Reference struct {
		Schema string `json:"schema"`
		Name   string `json:"name"`
	} `json:"reference"`
}

type property struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// The schemas that are read (operator-registry, alpha/declcfg/declcfg.go).
const (
	packageSchema      = "olm.package"
	channelSchema      = "olm.channel"
	bundleSchema       = "olm.bundle"
	deprecationsSchema = "olm.deprecations"
)

// file reads a file of the catalog.
func (r *reading) file(f layers.File, content io.Reader) error {
	switch {
	case f.IsLink:
		return fmt.Errorf("%s is no file but a link", f.Shown())
	case path.Base(f.Name) == ignoreFile:
		return r.ignore(f, content)
	case f.Size > maxFile:
		return fmt.Errorf("%s has %d MiB, more than is read (%d)", f.Shown(), f.Size>>20, maxFile>>20)
	}
	r.now = f.Name
	if err := objectsOf(content, r.object); err != nil {
		return fmt.Errorf("%s: %w", f.Shown(), err)
	}
	return nil
}

// object takes an object, as the text that it is.
func (r *reading) object(data []byte, toJSON func([]byte) ([]byte, error)) error {
	if r.catalog.Objects++; r.catalog.Objects > maxObjects {
		return fmt.Errorf("the catalog declares more than %d objects", maxObjects)
	}
	if !r.mentions(data) {
		return nil
	}
	data, err := toJSON(data)
	if err != nil {
		return err
	}
	var head struct{ Schema, Package, Name string }
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	of := head.Package
	switch head.Schema {
	case packageSchema:
		of = head.Name
	case channelSchema, bundleSchema, deprecationsSchema:
	default:
		return nil
	}
	if r.wanted[of] == nil {
		return nil
	}
	if rawjson.Values(data, maxValues+1) > maxValues {
		return fmt.Errorf("%s %s has more than %s values", head.Schema, shown(head.Name), text.Number(maxValues))
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("%s %s: %w", head.Schema, shown(head.Name), err)
	}
	o.Package, o.file = of, r.now
	o.trim()
	if r.kept += o.size(); r.kept > maxKept {
		return fmt.Errorf("it says more than %d MiB of the packages that are installed", maxKept>>20)
	}
	r.layer = append(r.layer, o)
	return nil
}

// mentions reports whether an object may be about a package that was asked for: most are about others, and need not be
// decoded.
func (r *reading) mentions(data []byte) bool {
	for _, name := range r.wanted {
		if bytes.Contains(data, name) {
			return true
		}
	}
	return r.unusual || slices.ContainsFunc(escapes, func(e string) bool { return bytes.Contains(data, []byte(e)) })
}

// usual are the characters of names that have no further ways to be written.
const usual = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// escapes begin other ways to write a character in JSON and YAML, or are in every one: by its number, a line that goes on with
// the next, base64 (!!binary), UTF-16.
var escapes = []string{`\u`, `\U`, `\x`, "\\\n", "\\\r", "!!", "!<", "\x00"}

// trim keeps of the properties of a bundle what is read of them.
func (o *object) trim() {
	for _, p := range o.Properties {
		var v struct{ Version string }
		var k Kind
		if r, ok := p.requirement(); ok {
			o.requires = append(o.requires, r)
		}
		switch {
		case p.Type == packageSchema && json.Unmarshal(p.Value, &v) == nil:
			o.version = v.Version
		case p.Type == kindProperty && json.Unmarshal(p.Value, &k) == nil:
			o.provides = append(o.provides, k)
		}
	}
	o.Properties = nil
}

// size returns about how much memory an object takes.
func (o *object) size() int {
	const one = 64
	n := one + len(o.version) + len(o.Schema) + len(o.Package) + len(o.Name) + len(o.DefaultChannel) + len(o.Image)
	for _, e := range o.Entries {
		n += one + len(e.Name) + len(e.Replaces) + len(e.SkipRange) + len(e.Reference.Schema) + len(e.Reference.Name)
		for _, s := range e.Skips {
			n += one + len(s)
		}
	}
	for _, i := range o.Related {
		n += one + len(i.Name) + len(i.Image)
	}
	for _, r := range o.requires {
		n += 2*one + len(r.Package) + len(r.Range) + len(r.Kind.Group) + len(r.Kind.Version) + len(r.Kind.Kind) + len(r.Other)
	}
	for _, k := range o.provides {
		n += one + len(k.Group) + len(k.Version) + len(k.Kind)
	}
	return n
}

// take enters a declaration.
func (c *Catalog) take(o object) {
	p := c.Packages[o.Package]
	if p == nil {
		p = &Package{Name: o.Package, Channels: map[string]*Channel{}, Bundles: map[string]*Bundle{}, Deprecated: map[string]bool{}}
		c.Packages[o.Package] = p
	}
	twice := false
	switch o.Schema {
	case packageSchema:
		p.declared, twice = true, p.declared
		p.DefaultChannel = o.DefaultChannel
	case channelSchema:
		twice = p.Channels[o.Name] != nil
		p.Channels[o.Name] = &Channel{o.Name, each.Of(o.Entries, func(e entry) Entry { return e.Entry })}
	case bundleSchema:
		twice = p.Bundles[o.Name] != nil
		p.Bundles[o.Name] = &Bundle{Name: o.Name, Version: o.version, Image: o.Image, Related: o.Related, Requires: o.requires, Provides: o.provides}
	case deprecationsSchema:
		p.deprecates, twice = true, p.deprecates
		for _, e := range o.Entries {
			if e.Reference.Schema == bundleSchema {
				p.Deprecated[e.Reference.Name] = true
			}
		}
	}
	if twice {
		p.fault(fmt.Errorf("it declares %s twice", strings.TrimSpace(o.Schema+" "+shown(o.Name))))
	}
}

func (p *Package) fault(err error) {
	if p.Fault == nil {
		p.Fault = err
	}
}

// name refuses a name that is too long: some are noted once for each image.
func (p *Package) name(kind, name string) {
	if len(name) > maxName {
		p.fault(fmt.Errorf("the name of the %s %s has %d characters, more than any object's (%d)", kind, shown(name), len(name), maxName))
	}
}

// end notes what is wrong with packages once all was read.
func (r *reading) end(ctx context.Context) error {
	if r.catalog.Objects == 0 {
		return fmt.Errorf("%w: it declares nothing", ErrNoCatalog)
	}
	if err := r.count(ctx); err != nil {
		return err
	}
	for _, p := range r.catalog.Packages {
		p.name("package", p.Name)
		entries := 0
		for _, c := range p.Channels {
			p.name("channel", c.Name)
			entries += len(c.Entries)
			for _, e := range c.Entries {
				p.name("bundle", e.Name)
			}
		}
		if entries > maxEntries {
			p.fault(fmt.Errorf("its channels have %d entries, more than are read (%d)", entries, maxEntries))
		}
		if !p.declared {
			p.fault(errors.New("the catalog declares parts of it, and not the package"))
		}
		for _, b := range p.Bundles {
			p.name("bundle", b.Name)
			if len(b.Requires) > maxRequires {
				p.fault(fmt.Errorf("its bundle %s has %d requirements, more than are read (%d)", shown(b.Name), len(b.Requires), maxRequires))
			}
			if b.Image == "" {
				p.fault(fmt.Errorf("its bundle %s names no image", shown(b.Name)))
			}
			for _, i := range b.Related {
				if len(i.Image) > maxReference {
					p.fault(fmt.Errorf("its bundle %s names an image in %d characters", shown(b.Name), len(i.Image)))
				}
			}
		}
	}
	return nil
}
