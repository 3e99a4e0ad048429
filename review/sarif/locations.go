package sarif

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/changefile"
)

// A Change says where its parts stand. *changefile.Reader does.
type Change interface {
	// Find returns where scope is named, in the objects of these names or in all.
	Find(scope string, names ...string) []changefile.Position
	// Objects returns where the objects of these names begin, or all.
	Objects(names ...string) []changefile.Position
}

// A locator finds the locations of findings.
type locator struct {
	Change
	scopes map[string][]string // of the entries that decide on an image, before and after, by reference
	found  map[string][]changefile.Position
	folder string // the current one
}

func newLocator(r review.Record, c Change) *locator {
	p := &locator{Change: c, scopes: map[string][]string{}, found: map[string][]changefile.Position{}}
	p.folder, _ = os.Getwd() // without it, absolute paths stay so
	for i := range r.Plan.Reroutes {
		reroute := &r.Plan.Reroutes[i]
		scopes := p.scopes[reroute.Image.Ref]
		for _, scope := range []string{reroute.After.Entry, reroute.Before.Entry} {
			if scope != "" && !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
		p.scopes[reroute.Image.Ref] = scopes
	}
	return p
}

// locationsOf returns the locations of a finding, the one that it is about first.
func (p *locator) locationsOf(f policy.Finding) []location {
	positions := p.positionsOf(f)
	if len(positions) == 0 {
		positions = p.Objects()
		positions = positions[:min(1, len(positions))]
	}
	locations := make([]location, len(positions))
	for i, at := range positions {
		locations[i] = p.location(at)
	}
	return locations
}

func (p *locator) positionsOf(f policy.Finding) []changefile.Position {
	if s := f.Statement; s != nil {
		source, _, _ := strings.Cut(s.Scope, " ") // a fault of a mirror names it after the source
		if found := p.Find(source, s.Objects...); source != "" && len(found) > 0 {
			return found
		}
		if len(s.Objects) > 0 {
			return p.Objects(s.Objects...)
		}
		return nil
	}
	for _, scope := range p.scopes[f.Image.Ref] {
		if found := p.ofScope(scope); len(found) > 0 {
			return forPull(found, f.Image.Ref)
		}
	}
	return nil
}

// ofScope is Find for a scope that many images have.
func (p *locator) ofScope(scope string) []changefile.Position {
	found, known := p.found[scope]
	if !known {
		found = p.Find(scope)
		p.found[scope] = found
	}
	return found
}

// forPull returns positions with those first whose objects are about pulls as that of ref.
func forPull(positions []changefile.Position, ref string) []changefile.Position {
	kind := mirrors.TagMirrorSetGVK.Kind
	if mirrors.ByDigest(ref) {
		kind = mirrors.DigestMirrorSetGVK.Kind
	}
	of := func(p changefile.Position) int {
		if strings.HasPrefix(p.Object, kind+" ") {
			return 0
		}
		return 1
	}
	positions = slices.Clone(positions)
	slices.SortStableFunc(positions, func(a, b changefile.Position) int { return of(a) - of(b) })
	return positions
}

func (p *locator) location(at changefile.Position) location {
	return location{
		Physical: physicalLocation{Artifact: p.artifact(at.File), Region: region{at.Line, at.Column, at.EndColumn}},
		Logical:  []logical{{FullName: text.Line(at.Object), Kind: "resource"}},
	}
}

// artifact returns a file as a URI that is relative to the current folder, which in a pipeline is that of
// the repository.
func (p *locator) artifact(file string) artifact {
	if file == changefile.StandardInput {
		return artifact{Description: &message{file}}
	}
	path := filepath.Clean(file)
	if below, err := filepath.Rel(p.folder, path); filepath.IsAbs(path) && err == nil && filepath.IsLocal(below) {
		path = below
	}
	uri := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		uri.Scheme = "file"
		if !strings.HasPrefix(uri.Path, "/") {
			uri.Path = "/" + uri.Path // C:/
		}
	}
	return artifact{URI: uri.String()}
}
