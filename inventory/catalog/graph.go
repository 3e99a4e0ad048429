package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
)

const (
	// maxEntries bounds the entries of a package's channels. Those of Red Hat have some hundreds.
	maxEntries = 20_000
	// maxSteps bounds the bundles that an update passes through, and with maxEntries the time that following it takes.
	maxSteps = 1_000
)

// A graph says which bundle updates another.
type graph struct {
	// entries are ordered: of those that update a bundle, the first is installed. Heads are where updates end.
	entries, heads []Entry
	// updates is, by the name of a bundle, the first of entries that replaces or skips it.
	updates map[string]int
	// ranges are the entries that have a skipRange, in order.
	ranges []skipRange
	// versions are those of entries, if a bundle of the version that is installed comes before those that follow it:
	// OLM v1 stays with what is installed then. Nil for OLM.
	versions []version
}

// A skipRange is that of an entry. It is nil if it cannot be read.
type skipRange struct {
	of       int
	includes semver.Range
}

func newGraph(entries, heads []Entry) *graph {
	g := &graph{entries: entries, heads: heads, updates: map[string]int{}}
	parsed := map[string]semver.Range{"": nil}
	for i := range entries {
		e := &entries[i]
		for _, name := range append([]string{e.Replaces}, e.Skips...) {
			if _, ok := g.updates[name]; !ok && name != e.Name {
				g.updates[name] = i
			}
		}
		if e.SkipRange == "" {
			continue
		}
		in, ok := parsed[e.SkipRange]
		if !ok {
			in, _ = parseRange(e.SkipRange) // said once it matters
			parsed[e.SkipRange] = in
		}
		g.ranges = append(g.ranges, skipRange{i, in})
	}
	return g
}

// next returns the name of the bundle that is installed after another, "" for none.
func (g *graph) next(at Installed) (string, error) {
	current, unknown := semver.Parse(at.Version)
	end := len(g.entries)
	if g.versions != nil {
		if unknown != nil {
			return "", fmt.Errorf("the version %q of its bundle %s cannot be read", shown(at.Version), shown(at.Name))
		}
		if i := slices.IndexFunc(g.versions, func(v version) bool { return v.compare(released(current)) == 0 }); i >= 0 {
			end = i
		}
	}
	next := ""
	if i, ok := g.updates[at.Name]; ok && i < end {
		next, end = g.entries[i].Name, i
	}
	for _, r := range g.ranges {
		e := &g.entries[r.of]
		switch {
		case r.of >= end:
			return next, nil
		case e.Name == at.Name:
		case r.includes == nil:
			return "", fmt.Errorf("its bundle %s: skipRange %q cannot be read", shown(e.Name), shown(e.SkipRange))
		case unknown != nil:
			return "", fmt.Errorf("which of its bundles update %s is not known, as its version is not", shown(at.Name))
		case r.includes(current):
			return e.Name, nil
		}
	}
	return next, nil
}

// walk follows the updates from what is installed, or if nothing is, from first.
func (p *Package) walk(ctx context.Context, g *graph, at Installed, first string) (Update, error) {
	var names []string
	if at.Name == "" {
		names, at = []string{first}, Installed{Name: first}
	}
	seen := map[string]bool{at.Name: true}
	for {
		if b := p.Bundles[at.Name]; b != nil {
			at.Version = b.Version
		}
		next, err := g.next(at)
		switch {
		case ctx.Err() != nil:
			return Update{}, ctx.Err()
		case err != nil:
			return Update{}, err
		case next == "":
			return p.update(names, at.Name, g.heads)
		case seen[next]:
			return Update{}, fmt.Errorf("its updates go round in a circle at %s", shown(next))
		case len(names) == maxSteps:
			return Update{}, fmt.Errorf("its update passes through more than %d bundles", maxSteps)
		}
		seen[next] = true
		names = append(names, next)
		at = Installed{Name: next}
	}
}

// update returns that which goes through bundles and ends with one.
func (p *Package) update(names []string, end string, heads []Entry) (Update, error) {
	u := Update{Stops: !slices.ContainsFunc(heads, func(e Entry) bool { return e.Name == end })}
	switch {
	case u.Stops:
		names = append(names, heads[0].Name)
	case len(names) == 0:
		names = []string{end}
	}
	for _, name := range names {
		b := p.Bundles[name]
		if b == nil {
			return Update{}, undeclared(name)
		}
		u.Bundles = append(u.Bundles, b)
	}
	return u, nil
}
