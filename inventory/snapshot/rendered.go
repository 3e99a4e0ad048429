package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// A renderedContent is one that the dump has, or why it could not be read.
type renderedContent struct {
	config *rollout.Rendered
	err    error
}

// renderedContent keeps a MachineConfig that MCO rendered for a pool.
func (r *reader) renderedContent(name string, data []byte) {
	if !strings.HasPrefix(name, objects.RenderedPrefix) {
		return
	}
	config, err := objects.DecodeRendered(data)
	r.contents[name] = renderedContent{config, err}
}

// Rendered implements Source. The error says that the dump does not have it, or what in
// it cannot be read; it is rollout.ErrGone where the cluster did not have it either.
func (s *Snapshot) Rendered(_ context.Context, name string) (*rollout.Rendered, error) {
	r, ok := s.contents[name]
	if !ok {
		return nil, fmt.Errorf("the dump has no MachineConfig %s", name)
	}
	return r.config, r.err
}

// contentKind is that of a writtenContent.
var contentKind = ownVersion.WithKind("RenderedContent")

// A writtenContent is the written part of the content of a rendered config. A hash of a short
// file would give its content away to anyone who tries them all; numbers only show which files are the
// same within the dump.
type writtenContent struct {
	Name string `json:"name"`
	// Gone says that the cluster did not have it, Problem why it could not be read.
	Gone    bool   `json:"gone,omitempty"`
	Problem string `json:"problem,omitempty"`

	Registries map[string]string `json:"registries,omitempty"` // by path, with their content
	Files      map[string]int    `json:"files,omitempty"`      // all others
	Units      map[string]int    `json:"units,omitempty"`
	Users      int               `json:"users,omitempty"`

	OSImage         string   `json:"osImage,omitempty"`
	ExtensionsImage string   `json:"extensionsImage,omitempty"`
	KernelType      string   `json:"kernelType,omitempty"`
	KernelArguments []string `json:"kernelArguments,omitempty"`
	Extensions      []string `json:"extensions,omitempty"`
	FIPS            bool     `json:"fips,omitempty"`
}

// A numbering gives equal things the same number, from 1 on in the order in which they come.
type numbering map[string]int

func (n numbering) number(thing string) int {
	if thing == "" {
		return 0
	}
	if _, known := n[thing]; !known {
		n[thing] = len(n) + 1
	}
	return n[thing]
}

// contents writes the rendered configs that a diagnosis of c reads. The error is that of ctx.
func (w *writer) contents(ctx context.Context, source Source, c rollout.Cluster) error {
	numbers := numbering{}
	for _, name := range status.Needed(c, status.MaxRendered) {
		config, err := source.Rendered(ctx, name)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		written := writtenContent{Name: name}
		switch {
		case rollout.IsGone(err):
			written.Gone = true
		case err != nil:
			written.Problem = err.Error()
		default:
			written = writtenOf(config, numbers)
		}
		w.object(contentKind, written)
	}
	return nil
}

func writtenOf(r *rollout.Rendered, numbers numbering) writtenContent {
	w := writtenContent{
		Name: r.Name, Registries: map[string]string{}, Files: map[string]int{}, Units: map[string]int{},
		OSImage: r.OSImage, ExtensionsImage: r.ExtensionsImage, KernelType: r.KernelType,
		KernelArguments: r.KernelArguments, Extensions: r.Extensions, FIPS: r.FIPS,
	}
	for _, file := range slices.Sorted(maps.Keys(r.Files)) {
		if mirrors.IsAppliedFile(path.Clean(file)) {
			w.Registries[file] = string(r.Files[file])
			continue
		}
		w.Files[file] = numbers.number(string(r.Files[file]))
	}
	for _, unit := range slices.Sorted(maps.Keys(r.Units)) {
		w.Units[unit] = numbers.number(r.Units[unit])
	}
	w.Users = numbers.number(r.Users)
	return w
}

func (r *reader) writtenContent(data []byte) error {
	var w writtenContent
	if err := strictjson.Unmarshal(data, &w); err != nil {
		return err
	}
	if w.Name == "" {
		return errors.New("the content of a rendered config without a name")
	}
	r.contents[w.Name] = w.read()
	return nil
}

func (w *writtenContent) read() renderedContent {
	switch {
	case w.Gone:
		return renderedContent{err: fmt.Errorf("MachineConfig %s: %w", w.Name, rollout.ErrGone)}
	case w.Problem != "":
		return renderedContent{err: errors.New(w.Problem)}
	}
	numbered := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("#%d", n)
	}
	config := &rollout.Rendered{
		Name: w.Name, Files: rollout.Files{}, Units: map[string]string{}, Users: numbered(w.Users),
		OSImage: w.OSImage, ExtensionsImage: w.ExtensionsImage, KernelType: w.KernelType,
		KernelArguments: w.KernelArguments, Extensions: w.Extensions, FIPS: w.FIPS,
	}
	for file, content := range w.Registries {
		config.Files[file] = []byte(content)
	}
	for file, n := range w.Files {
		config.Files[file] = []byte(numbered(n))
	}
	for unit, n := range w.Units {
		config.Units[unit] = numbered(n)
	}
	return renderedContent{config: config}
}
