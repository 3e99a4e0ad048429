package catalog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// A member is an entry of a layer; kind is 0 for a file.
type member struct {
	name, content string
	kind          byte
}

func layer(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		header := &tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.content)), Typeflag: tar.TypeReg}
		if m.kind != 0 {
			header.Typeflag, header.Size, header.Linkname = m.kind, 0, m.content
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if m.kind == 0 {
			if _, err := io.WriteString(w, m.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func image(t testing.TB, labels map[string]string, all ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, all...)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.Config(img, v1.Config{Labels: labels}); err != nil {
		t.Fatal(err)
	}
	return img
}

func plain(layers ...[]byte) []v1.Layer {
	var all []v1.Layer
	for _, l := range layers {
		all = append(all, static.NewLayer(l, types.OCIUncompressedLayer))
	}
	return all
}

var labelled = map[string]string{configsLabel: "/configs"}

const (
	quayJSON = `{"schema":"olm.package","name":"quay","defaultChannel":"stable"}
{"schema":"olm.channel","package":"quay","name":"stable","entries":[{"name":"quay.v1.0.0"},{"name":"quay.v1.1.0","replaces":"quay.v1.0.0"}]}
`
	quayYAML = `---
schema: olm.bundle
package: quay
name: quay.v1.1.0
image: quay.io/quay/bundle@sha256:1
properties:
- {type: olm.gvk, value: {kind: X}}
- {type: olm.package, value: {packageName: quay, version: 1.1.0}}
relatedImages:
- {name: quay, image: "quay.io/quay/quay:v1"}
- name: ""
  image: quay.io/quay/bundle@sha256:1
--- # another
schema: olm.bundle
package: other
name: quay.v7
image: quay.io/x
---
schema: olm.deprecations
package: quay
entries: [{reference: {schema: olm.package}, message: old}]
`
)

// TestRead: a catalog in JSON and YAML, over several layers of which later ones hide files.
func TestRead(t *testing.T) {
	old := member{name: "configs/quay/bundles.yaml", content: "schema: olm.bundle\npackage: quay\nname: quay.v0.1.0\nimage: x/y\n"}
	whole := []member{{name: "configs/quay/catalog.json", content: quayJSON}, {name: "configs/quay/bundles.yaml", content: quayYAML}}
	for name, layers := range map[string][]v1.Layer{
		"one layer":       plain(layer(t, whole...)),
		"absolute names":  plain(layer(t, member{name: "/configs/a", content: quayJSON}, member{name: "./configs/b", content: quayYAML})),
		"a layer on top":  plain(layer(t, whole...), layer(t, member{name: "tmp/cache/x", content: "x"})),
		"one in each":     plain(layer(t, whole[0]), layer(t, whole[1])),
		"replaced":        plain(layer(t, old), layer(t, whole...)),
		"removed":         plain(layer(t, member{name: "configs/a", content: old.content}), layer(t, append(whole, member{name: "configs/.wh.a"})...)),
		"folder emptied":  plain(layer(t, member{name: "configs/quay/old.yaml", content: old.content}), layer(t, append(whole, member{name: "configs/quay/.wh..wh..opq"})...)),
		"ignore file":     plain(layer(t, append(whole, member{name: "configs/.indexignore", content: "*.md"})...)),
		"escaped letters": plain(layer(t, member{name: "configs/a", content: strings.ReplaceAll(quayJSON, `"quay"`, `"qua\u0079"`)}, whole[1])),
		"a space before":  plain(layer(t, member{name: "configs/a", content: "\n \t" + quayJSON}, whole[1])),
	} {
		c, err := Read(context.Background(), image(t, labelled, layers...), []string{"quay", "absent"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := c.Packages["quay"]
		if len(c.Packages) != 1 || p == nil || p.Fault != nil || p.DefaultChannel != "stable" || len(p.Bundles) != 1 || c.Objects != 5 {
			t.Errorf("%s: got %+v, %d objects", name, p, c.Objects)
			continue
		}
		b := p.Bundles["quay.v1.1.0"]
		if b.Version != "1.1.0" || b.Image != "quay.io/quay/bundle@sha256:1" || len(b.Related) != 2 || b.Related[0] != (Related{"quay", "quay.io/quay/quay:v1"}) {
			t.Errorf("%s: got %+v", name, b)
		}
		if u, err := p.Follow(t.Context(), objects.SubscriptionSpec{}, Installed{Name: "quay.v1.0.0"}); err != nil || names(u) != "quay.v1.1.0" {
			t.Errorf("%s: got %q, %v", name, names(u), err)
		}
	}
}

// TestReadRefuses: what is no catalog, or was made to do harm, is refused with a word.
func TestReadRefuses(t *testing.T) {
	at := func(content string) []v1.Layer {
		return plain(layer(t, member{name: "configs/a.json", content: content}))
	}
	for _, tt := range []struct {
		want   string
		labels map[string]string
		layers []v1.Layer
	}{
		{"it has no label operators.operatorframework.io.index.configs.v1", nil, at(quayJSON)},
		{"it is a database, as catalogs were before", map[string]string{databaseLabel: "/database/index.db"}, at(quayJSON)},
		{`is "/", which is no folder`, map[string]string{configsLabel: "/"}, at(quayJSON)},
		{`is "/a/../..", which is no folder`, map[string]string{configsLabel: "/a/../.."}, at(quayJSON)},
		{"it cannot be read", labelled, at(utf16("schema: olm.bundle\npackage: quay\nname: quay.v1.1.0\n---\n"))},
		{"it declares nothing", labelled, plain(layer(t, member{name: "usr/x", content: "x"}))},
		{"it declares nothing", labelled, plain(layer(t, member{name: "configs/a.json", content: quayJSON}), layer(t, member{name: ".wh.configs"}))},
		{"configs/a.json: it cannot be read: unexpected EOF", labelled, at(quayJSON + `{"schema":`)},
		{"configs/a.json: it cannot be read: invalid character", labelled, at(`{"schema":"olm.package"}]`)},
		{"configs/a.json: olm.channel stable: ", labelled, at(`{"schema":"olm.channel","package":"quay","name":"stable","entries":{}}`)},
		{"configs/a.json: it cannot be read", labelled, at("schema: olm.bundle\npackage: quay\nentries: [1")},
		{"configs/a.json is no file but a link", labelled, plain(layer(t, member{name: "configs/a.json", content: "/etc/passwd", kind: tar.TypeSymlink}))},
		{"configs/.indexignore is no file but a link", labelled, plain(layer(t, member{name: "configs/.indexignore", content: "/etc/passwd", kind: tar.TypeSymlink}))},
		{"configs/.indexignore has more than 64 KiB", labelled, plain(layer(t, member{name: "configs/.indexignore", content: strings.Repeat("# x\n", maxIgnoreFile/4+1)}))},
		{"the .indexignore of the catalog have more than 1000 lines", labelled, plain(layer(t, member{name: "configs/.indexignore", content: strings.Repeat("x\n", maxIgnored+1)}))},
		{"configs is no folder", labelled, plain(layer(t, member{name: "configs", content: "/etc", kind: tar.TypeSymlink}))},
		{`a path that leads out of it: "configs/../../etc"`, labelled, plain(layer(t, member{name: "configs/../../etc", content: "x"}))},
		{"an object in it has more than 8 MiB", labelled, at(`{"schema":"olm.bundle","x":"` + strings.Repeat("x", maxObject) + `"}`)},
		{"an object in it has more than 8 MiB", labelled, at("schema: olm.bundle\nx: " + strings.Repeat("x", maxObject))},
		{"an object in it has more than 8 MiB", labelled, at("schema: olm.bundle\nx:\n" + strings.Repeat("- x\n", maxObject/4))},
		{"the catalog declares more than 1000000 objects", labelled, at(strings.Repeat("{}", maxObjects+1))},
		{"it says more than 32 MiB of the packages that are installed", labelled, at(strings.Repeat(`{"schema":"olm.bundle","package":"quay","image":"`+strings.Repeat("x", 7<<20)+`"}`, 5))},
		{"exceeded max depth", labelled, at(strings.Repeat(`{"a":`, 20_000))},
		{"reading its archive", labelled, plain([]byte(strings.Repeat("no archive", 1000)))},
	} {
		_, err := Read(context.Background(), image(t, tt.labels, tt.layers...), []string{"quay"})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, ErrNoCatalog) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// utf16 returns a text in the encoding that YAML has beside UTF-8.
func utf16(s string) string {
	b := []byte{0xfe, 0xff}
	for _, c := range []byte(s) {
		b = append(b, 0, c)
	}
	return string(b)
}

// TestReadNames: a package is found, in whichever way its name is written.
func TestReadNames(t *testing.T) {
	const declared = `{"schema":"olm.package","name":"%s","defaultChannel":"stable"}`
	for name, written := range map[string]string{
		`quay`:   `{"schema":"olm.bundle","package":"quay","name":"b","image":"x"}`,
		`"qu`:    `{"schema":"olm.bundle","package":"\"qu","name":"b","image":"x"}`,
		`quay-1`: `{"schema":"olm.bundle","package":"\u0071uay-1","name":"b","image":"x"}`,
		`quay-2`: "schema: olm.bundle\npackage: \"\\x71uay-2\"\nname: b\nimage: x",
		`quay-3`: "schema: olm.bundle\npackage: \"qu\\\n  ay-3\"\nname: b\nimage: x",
		`quay-4`: "schema: olm.bundle\r\npackage: \"qu\\\r\n  ay-4\"\r\nname: b\r\nimage: x",
		`quay-5`: "schema: olm.bundle\npackage: !!binary cXVheS01\nname: b\nimage: x",
		`quay-6`: "schema: olm.bundle\npackage: !<tag:yaml.org,2002:binary> cXVheS02\nname: b\nimage: x",
		`q y`:    "schema: olm.bundle\npackage: q\n  y\nname: b\nimage: x",
	} {
		whole := layer(t, member{name: "configs/a", content: fmt.Sprintf(declared, strings.ReplaceAll(name, `"`, `\"`))}, member{name: "configs/b", content: written})
		c, err := Read(t.Context(), image(t, labelled, plain(whole)...), []string{name})
		if err != nil || c.Packages[name] == nil || c.Packages[name].Bundles["b"] == nil {
			t.Errorf("%s: got %+v, %v", written, c, err)
		}
	}
}

// TestReadIgnored: what an .indexignore hides is no part of the catalog, as for opm.
func TestReadIgnored(t *testing.T) {
	const draft = `{"schema":"olm.channel","package":"quay","name":"stable","entries":[{"name":"quay.v9"}]}`
	for _, tt := range []struct {
		reason, at, lines string
		file              string // of the draft, below configs
		want              string // a fault, or "hidden"
	}{
		{"a name", "", "# drafts\n\n draft.json \n", "quay/draft.json", "hidden"},
		{"a pattern", "", "d*.json", "quay/draft.json", "hidden"},
		{"a folder", "", "drafts/", "quay/drafts/a.json", "hidden"},
		{"a file that is no folder", "", "drafts/", "quay/drafts", "declares olm.channel stable twice"},
		{"a path", "", "/quay/draft.json", "quay/draft.json", "hidden"},
		{"the path of a folder", "", "quay/drafts", "quay/drafts/a/b.json", "hidden"},
		{"another path", "", "/draft.json", "quay/draft.json", "declares olm.channel stable twice"},
		{"a line in a folder", "quay/", "/draft.json", "quay/draft.json", "hidden"},
		{"a line in another folder", "other/", "draft.json", "quay/draft.json", "declares olm.channel stable twice"},
		{"all but one", "", "*.json\n!draft.json\n!catalog.json", "quay/draft.json", "declares olm.channel stable twice"},
		{"one after all", "", "!draft.json\ndraft.json", "quay/draft.json", "hidden"},
		{"a pattern that is none", "", "[", "quay/draft.json", "declares olm.channel stable twice"},
		{"what is not understood", "", "/quay/**/draft.json", "quay/draft.json", "whether configs/quay/catalog.json counts is not known: configs/.indexignore has a line with **"},
	} {
		whole := layer(t, member{name: "configs/quay/catalog.json", content: quayJSON + `{"schema":"olm.bundle","package":"quay","name":"quay.v1.1.0","image":"x"}`}, member{name: "configs/" + tt.file, content: draft})
		c, err := Read(t.Context(), image(t, labelled, plain(layer(t, member{name: "configs/" + tt.at + ".indexignore", content: tt.lines}), whole)...), []string{"quay"})
		if err != nil {
			t.Errorf("%s: %v", tt.reason, err)
			continue
		}
		p := c.Packages["quay"]
		if hidden := p.Fault == nil && len(p.Channels["stable"].Entries) == 2; hidden != (tt.want == "hidden") || p.Fault != nil && !strings.Contains(p.Fault.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.reason, p.Fault, tt.want)
		}
	}
}

// TestReadProperties: what a bundle requires of other operators, and what it provides.
func TestReadProperties(t *testing.T) {
	const bundle = `{"schema":"olm.bundle","package":"quay","name":"quay.v1.1.0","image":"x","properties":[
		{"type":"olm.package","value":{"packageName":"quay","version":"1.1.0"}},
		{"type":"olm.gvk","value":{"group":"quay.redhat.com","kind":"Quay","version":"v1"}},
		{"type":"olm.package.required","value":{"packageName":"clair","versionRange":">=2.0.0"}},
		{"type":"olm.gvk.required","value":{"group":"noobaa.io","kind":"Bucket","version":"v1"}},
		{"type":"olm.constraint","value":{"failureMessage":"x","package":{"packageName":"redis","versionRange":"<7.0.0"}}},
		{"type":"olm.constraint","value":{"gvk":{"group":"a.b","kind":"C","version":"v1"}}},
		{"type":"olm.constraint","value":{"any":{"constraints":[]}}},
		{"type":"olm.constraint","value":{}},
		{"type":"olm.package.required","value":7},
		{"type":"olm.label.required","value":{"label":"x"}},
		{"type":"olm.maxOpenShiftVersion","value":"4.21"}]}
{"schema":"olm.deprecations","package":"quay","entries":[{"reference":{"schema":"olm.bundle","name":"quay.v1.0.0"},"message":"old"},{"reference":{"schema":"olm.channel","name":"stable"}}]}`
	c, err := Read(t.Context(), image(t, labelled, plain(layer(t, member{name: "configs/a", content: quayJSON + bundle}))...), []string{"quay"})
	if err != nil {
		t.Fatal(err)
	}
	p := c.Packages["quay"]
	b := p.Bundles["quay.v1.1.0"]
	var got []string
	for _, r := range b.Requires {
		got = append(got, r.String())
	}
	want := []string{
		"the package clair >=2.0.0", "Bucket of noobaa.io/v1", "the package redis <7.0.0", "C of a.b/v1",
		`what is not understood here: olm.constraint {"any":{"constraints":[]}}`, "what is not understood here: olm.constraint {}",
		"what is not understood here: olm.package.required 7", `what is not understood here: olm.label.required {"label":"x"}`,
	}
	if !slices.Equal(got, want) || !slices.Equal(b.Provides, []Kind{{"quay.redhat.com", "v1", "Quay"}}) || b.Version != "1.1.0" {
		t.Errorf("got %q, %v, %s", got, b.Provides, b.Version)
	}
	if !maps.Equal(p.Deprecated, map[string]bool{"quay.v1.0.0": true}) {
		t.Errorf("deprecated: %v", p.Deprecated)
	}
}

// TestReadConfig: a config is as large as nodes read at most.
func TestReadConfig(t *testing.T) {
	img := image(t, map[string]string{configsLabel: "/configs", "x": strings.Repeat("x", maxConfig)}, plain(layer(t, member{name: "configs/a", content: quayJSON}))...)
	if _, err := Read(t.Context(), img, []string{"quay"}); err == nil || !errors.Is(err, ErrNoCatalog) || !strings.Contains(err.Error(), "more than nodes read (4194304)") {
		t.Errorf("got %v", err)
	}
}

// TestFaults: what is wrong with one package says nothing of others.
func TestFaults(t *testing.T) {
	other := `{"schema":"olm.package","name":"other"}{"schema":"olm.bundle","package":"other","name":"other.v1","image":"x/y"}`
	for content, want := range map[string]string{
		quayJSON + quayJSON: "it declares olm.package quay twice",
		quayJSON + `{"schema":"olm.channel","package":"quay","name":"x","entries":[` + strings.Repeat(`{"name":"y"},`, maxEntries) + `{}]}`:                                                                                                    "its channels have 20003 entries, more than are read (20000)",
		quayJSON + strings.Repeat(`{"schema":"olm.deprecations","package":"quay","entries":[]}`, 2):                                                                                                                                            "it declares olm.deprecations twice",
		quayJSON + `{"schema":"olm.bundle","package":"quay","name":"quay.v1.1.0"}`:                                                                                                                                                             "its bundle quay.v1.1.0 names no image",
		quayJSON + `{"schema":"olm.bundle","package":"quay","name":"quay.v1.1.0","image":"x","relatedImages":[{"image":"` + strings.Repeat("x", 2_000) + `"}]}`:                                                                                "names an image in 2000 characters",
		quayJSON + `{"schema":"olm.bundle","package":"quay","name":"` + strings.Repeat("b", 254) + `","image":"x"}`:                                                                                                                            "b… has 254 characters, more than any object's (253)",
		quayJSON + `{"schema":"olm.channel","package":"quay","name":"` + strings.Repeat("c", 254) + `","entries":[]}`:                                                                                                                          "the name of the channel ccc",
		quayJSON + `{"schema":"olm.channel","package":"quay","name":"x","entries":[{"name":"` + strings.Repeat("d", 254) + `"}]}`:                                                                                                              "the name of the bundle ddd",
		quayJSON + `{"schema":"olm.bundle","package":"quay","name":"quay.v1.1.0","image":"x","properties":[` + strings.Repeat(`{"type":"olm.gvk.required","value":{"kind":"K"}},`, 100) + `{"type":"olm.gvk.required","value":{"kind":"K"}}]}`: "its bundle quay.v1.1.0 has 101 requirements, more than are read (100)",
		`{"schema":"olm.bundle","package":"quay","name":"quay.v1.1.0","image":"x"}`:                                                                                                                                                            "declares parts of it, and not the package",
	} {
		c, err := Read(context.Background(), image(t, labelled, plain(layer(t, member{name: "configs/a", content: content + other}))...), []string{"quay", "other"})
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := c.Packages["quay"].Fault; got == nil || !strings.Contains(got.Error(), want) || c.Packages["other"].Fault != nil {
			t.Errorf("got %v and %v, want %s", got, c.Packages["other"].Fault, want)
		}
	}
}

// TestReadBomb: a layer that is small as long as it is packed is not unpacked beyond the limit.
func TestReadBomb(t *testing.T) {
	const size = 200 << 20
	packed, done := io.Pipe()
	go func() {
		z, err := gzip.NewWriterLevel(done, gzip.BestSpeed)
		if err == nil {
			w := tar.NewWriter(z)
			err = w.WriteHeader(&tar.Header{Name: "zeros", Mode: 0o644, Size: size, Typeflag: tar.TypeReg})
			if err == nil {
				_, err = io.Copy(w, io.LimitReader(zeros{}, size))
			}
		}
		done.CloseWithError(err)
	}()
	_, err := read(context.Background(), image(t, labelled, bomb{static.NewLayer([]byte("bomb"), types.OCILayer), packed}), []string{"quay"}, 100<<20)
	packed.Close() //nolint:errcheck // a pipe
	if err == nil || !strings.Contains(err.Error(), "more than may be read (100 MiB)") {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A bomb is a layer whose content is made as it is read.
type bomb struct {
	v1.Layer
	packed io.Reader
}

func (b bomb) Uncompressed() (io.ReadCloser, error) {
	z, err := gzip.NewReader(b.packed)
	return z, err
}

// TestReadMemory: a catalog of 200 MB with thousands of bundles takes no more memory than its largest object and the
// packages that were asked for.
func TestReadMemory(t *testing.T) {
	const bundles = 2_000
	filler := strings.Repeat("x", 100<<10)
	content := io.MultiReader(strings.NewReader(quayJSON), &repeated{n: bundles, make: func(i int) string {
		return fmt.Sprintf(`{"schema":"olm.bundle","package":"p%d","name":"p%d.v1.0.0","image":"quay.io/x/y:%d","properties":[{"type":"x","value":%q}]}`, i, i, i, filler)
	}})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	objects, largest := 0, uint64(0)
	err := objectsOf(content, func(data []byte, toJSON func([]byte) ([]byte, error)) error {
		r := reading{wanted: map[string][]byte{"quay": []byte("quay")}, catalog: &Catalog{}}
		objects++
		if objects%500 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			largest = max(largest, after.HeapAlloc)
		}
		return r.object(data, toJSON)
	})
	if err != nil || objects != bundles+2 {
		t.Fatalf("%d objects, %v", objects, err)
	}
	if used := int64(largest) - int64(before.HeapAlloc); used > 8<<20 {
		t.Errorf("%d MB are in use while 200 MB flow by", used>>20)
	}
}

// A repeated reader makes texts as they are read.
type repeated struct {
	i, n int
	make func(int) string
	left string
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == "" {
		if r.i == r.n {
			return 0, io.EOF
		}
		r.left = r.make(r.i)
		r.i++
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// TestReadAliases: an object that aliases make a large one is refused before it is one.
func TestReadAliases(t *testing.T) {
	bomb := "schema: olm.bundle\npackage: a\nname: b\nx: &a \"" + strings.Repeat("a", 20_000) + "\"\ny: [" + strings.Repeat("*a,", 1_000) + "]\n"
	r := &reading{wanted: map[string][]byte{"a": []byte("a")}, catalog: &Catalog{Packages: map[string]*Package{}}}
	if allocated := allocatedBy(func() {
		if err := objectsOf(strings.NewReader(bomb), r.object); err == nil || !strings.Contains(err.Error(), "its aliases stand for more than 1 MiB") {
			t.Errorf("got %v", err)
		}
	}); allocated > 4<<20 {
		t.Errorf("%d MiB allocated for %d KiB", allocated>>20, len(bomb)>>10)
	}
}

// allocatedBy returns how many bytes are allocated meanwhile.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestReadValues: an object of many empty values is refused before they are decoded.
func TestReadValues(t *testing.T) {
	for _, list := range []string{"entries", "relatedImages", "properties"} {
		for format, wrap := range map[string]func(string) string{"JSON": func(s string) string { return s }, "YAML": func(s string) string { return "# YAML\n" + s }} {
			const items = maxValues + 1
			doc := wrap(`{"schema":"olm.channel","package":"a","name":"b","` + list + `":[{}` + strings.Repeat(",{}", items-1) + `]}`)
			r := &reading{wanted: map[string][]byte{"a": []byte("a")}, catalog: &Catalog{Packages: map[string]*Package{}}}
			allocated := allocatedBy(func() {
				if err := objectsOf(strings.NewReader(doc), r.object); err == nil || !strings.Contains(err.Error(), "values") {
					t.Errorf("%s in %s: %v", list, format, err)
				}
			})
			if format == "JSON" && allocated > 16*uint64(len(doc)) {
				t.Errorf("%s: %d MiB allocated for %d KiB", list, allocated>>20, len(doc)>>10)
			}
		}
	}
}

// TestIgnoredOnce: whether a file is ignored is found out once, however many objects it has, and not after the end.
func TestIgnoredOnce(t *testing.T) {
	of := func(objects int) (*reading, *counting) {
		r := &reading{catalog: &Catalog{Packages: map[string]*Package{}}}
		for range 100 {
			r.ignored = append(r.ignored, ignored{file: "configs/.indexignore", parts: []string{"*a*a*b"}})
		}
		for i := range objects {
			r.objects = append(r.objects, object{Schema: bundleSchema, Package: "a", Name: fmt.Sprint(i), file: "configs/" + strings.Repeat("a", 200)})
		}
		return r, &counting{Context: t.Context()}
	}
	one, asked := of(1)
	if err := one.count(asked); err != nil {
		t.Fatal(err)
	}
	if asked.n < 100 {
		t.Fatalf("the context was looked at %d times for 100 lines", asked.n)
	}
	many, again := of(100)
	if err := many.count(again); err != nil || again.n > asked.n+100 {
		t.Errorf("%v: looked at the lines %d times for 100 objects, %d for one", err, again.n, asked.n)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := many.count(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after the end", err)
	}
	long := image(t, labelled, plain(layer(t, member{name: "configs/.indexignore", content: strings.Repeat("*a", 600)}, member{name: "configs/a", content: quayJSON}))...)
	if _, err := Read(t.Context(), long, []string{"quay"}); err == nil || !strings.Contains(err.Error(), "configs/.indexignore has a line of 1200 characters, more than are read (1024)") {
		t.Errorf("got %v", err)
	}
}

// A counting context counts how often it was asked.
type counting struct {
	context.Context
	n int
}

func (c *counting) Err() error { c.n++; return c.Context.Err() }
