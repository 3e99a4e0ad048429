package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

// A Package is an operator in a catalog.
type Package struct {
	Name string
	// DefaultChannel comes first where a Subscription names none.
	DefaultChannel string
	Channels       map[string]*Channel
	Bundles        map[string]*Bundle
	// Deprecated are the names of bundles that OLM v1 takes last.
	Deprecated map[string]bool
	// Fault is what is wrong with what the catalog says; nil for nothing. The rest may then be a part.
	Fault error

	declared, deprecates bool
}

// A Channel is a graph of updates.
type Channel struct {
	Name    string  `json:"name"`
	Entries []Entry `json:"entries"`
}

// An Entry is a bundle in a channel, with the bundles that it updates.
type Entry struct {
	Name      string   `json:"name"`
	Replaces  string   `json:"replaces"`
	Skips     []string `json:"skips"`
	SkipRange string   `json:"skipRange"`
}

// A Bundle is a version of an operator, with the images that it needs.
type Bundle struct {
	Name    string
	Version string
	// Image is that of the bundle, which OLM unpacks.
	Image   string
	Related []Related
	// Requires is what other operators have to bring, and Provides what this one does.
	Requires []Requirement
	Provides []Kind
}

// A Related is an image that an operator runs, or may run.
type Related struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// An Installed is the bundle of a package that a cluster runs. Both are "" if none is known.
type Installed struct{ Name, Version string }

// An Update is the way from an installed bundle of a package to the newest that OLM would install.
type Update struct {
	// Bundles begin with the next one, and end with the last that OLM installs.
	Bundles []*Bundle
	// Stops is set if the updates end before the head of a channel. That of the first channel is the last of Bundles all the same.
	Stops bool
}

// Follow returns what OLM installs for a Subscription: of the bundles that update the one installed, the one nearest to the
// head of its channel, and so on (operator-lifecycle-manager, pkg/controller/registry/resolver). A Subscription that
// names no channel follows all of them, the default one first. Where nothing is installed, it begins with startingCSV, or
// else the head. What is installed already, as the head may be, is in it too.
func (p *Package) Follow(ctx context.Context, s objects.SubscriptionSpec, installed Installed) (Update, error) {
	var channels []string
	if s.Channel != "" {
		channels = []string{s.Channel}
	}
	entries, heads, err := p.chains(channels)
	if err != nil {
		return Update{}, err
	}
	first := entries[0].Name
	if s.StartingCSV != "" {
		first = s.StartingCSV
		if installed.Name == "" && !p.inChannel(first, s.Channel) {
			return Update{}, fmt.Errorf("its startingCSV %s is in no channel that it follows", shown(first))
		}
	}
	return p.walk(ctx, newGraph(entries, heads), installed, first)
}

// inChannel reports whether a bundle is in a channel, or in any if that is "".
func (p *Package) inChannel(bundle, channel string) bool {
	for name, c := range p.Channels {
		if (channel == "" || channel == name) && slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Name == bundle }) {
			return true
		}
	}
	return false
}

// Required returns what OLM installs for a bundle that requires a range of versions of a package which is not installed: of
// all channels, the default one first, the one nearest to the head (getBundleVariables in resolver.go).
func (p *Package) Required(versions string) (*Bundle, error) {
	in, err := parseRange(versions)
	if err != nil {
		return nil, err
	}
	entries, _, err := p.chains(nil)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		b, v, err := p.bundle(e.Name)
		if err != nil {
			return nil, err
		}
		if in(v) {
			return b, nil
		}
	}
	return nil, errNoVersion(versions)
}

// FollowVersions returns what OLM v1 installs for a ClusterExtension: of the bundles in the channels, which may be none for
// all of them, that update the one installed and whose versions are in a range, the highest that is not deprecated, if
// there is one (operator-controller, internal/operator-controller/resolve/catalog.go).
func (p *Package) FollowVersions(ctx context.Context, wants objects.CatalogFilter, installed Installed) (Update, error) {
	in, err := wantedRange(wants.Version)
	if err != nil {
		return Update{}, err
	}
	entries, err := p.entriesOf(wants.Channels)
	if err != nil {
		return Update{}, err
	}
	entries, versions, err := p.byVersion(entries, in)
	switch {
	case err != nil:
		return Update{}, err
	case len(entries) == 0:
		return Update{}, errNoVersion(wants.Version)
	case wants.UpgradeConstraintPolicy == objects.SelfCertified: // straight to the highest, from whichever is installed
		installed = Installed{}
	}
	g := newGraph(entries, entries[:1])
	g.versions = versions
	return p.walk(ctx, g, installed, entries[0].Name)
}

// entriesOf returns the entries of those channels that there are, or of all where none is asked for.
func (p *Package) entriesOf(channels []string) ([]Entry, error) {
	var entries []Entry
	found := false
	for _, name := range p.ordered() {
		if len(channels) == 0 || slices.Contains(channels, name) {
			entries, found = append(entries, p.Channels[name].Entries...), true
		}
	}
	if !found {
		return nil, p.noChannel(channels...)
	}
	return entries, nil
}

// ordered returns the names of the channels, the default one first.
func (p *Package) ordered() []string {
	known := make([]string, 0, len(p.Channels))
	for c := range p.Channels {
		known = append(known, c)
	}
	slices.Sort(known)
	if i := slices.Index(known, p.DefaultChannel); i > 0 {
		copy(known[1:], known[:i])
		known[0] = p.DefaultChannel
	}
	return known
}

func (p *Package) noChannel(names ...string) error {
	known := p.ordered()
	slices.Sort(known)
	wanted := each.Of(names, func(name string) string { return fmt.Sprintf("%q", shown(name)) })
	return fmt.Errorf("it has no channel %s (it has %s)", text.Names(wanted, maxNamed), text.Line(text.Names(known, maxNamed)))
}

const (
	// maxShown is how much is shown of what a catalog says, and maxNamed how many names.
	maxShown = 100
	maxNamed = 5
)

// chains returns the chains of channels, one after the other, and their heads: of all channels where none is asked for,
// the default one first.
func (p *Package) chains(channels []string) (entries, heads []Entry, err error) {
	if len(channels) == 0 {
		if channels = p.ordered(); p.Channels[p.DefaultChannel] == nil {
			return nil, nil, p.noChannel(p.DefaultChannel)
		}
	}
	for _, name := range channels {
		c := p.Channels[name]
		if c == nil {
			return nil, nil, p.noChannel(name)
		}
		chain, err := c.chain()
		if err != nil {
			return nil, nil, err
		}
		entries, heads = append(entries, chain...), append(heads, chain[0])
	}
	return entries, heads, nil
}

// chain returns the head of a channel and what it replaces, one after the other, without what others skip
// (operator-lifecycle-manager, resolver.go, sortChannel).
func (c *Channel) chain() ([]Entry, error) {
	byName := map[string]*Entry{}
	for i := range c.Entries {
		byName[c.Entries[i].Name] = &c.Entries[i]
	}
	updated, skipped := map[string]bool{}, map[string]bool{}
	for i := range c.Entries {
		e := &c.Entries[i]
		updated[e.Replaces] = true
		for _, s := range e.Skips {
			updated[s], skipped[s] = true, true
		}
	}
	var heads []string
	for i := range c.Entries {
		if name := c.Entries[i].Name; !updated[name] {
			heads = append(heads, name)
		}
	}
	if len(heads) != 1 {
		return nil, fmt.Errorf("its channel %s has %s, and OLM wants one", shown(c.Name), countOf(heads))
	}
	var chain []Entry
	seen := map[string]bool{}
	for e := byName[heads[0]]; e != nil; e = byName[e.Replaces] {
		if seen[e.Name] {
			return nil, fmt.Errorf("its channel %s goes round in a circle at %s", shown(c.Name), shown(e.Name))
		}
		seen[e.Name] = true
		if !skipped[e.Name] {
			chain = append(chain, *e)
		}
	}
	return chain, nil
}

func countOf(heads []string) string {
	if len(heads) == 0 {
		return "no head"
	}
	return fmt.Sprintf("%d heads (%s)", len(heads), text.Line(text.Names(heads, maxNamed)))
}

func undeclared(bundle string) error {
	return fmt.Errorf("its bundle %s is in a channel, and not declared: its images are not known", shown(bundle))
}

func shown(s string) string { return text.Line(text.Cut(s, maxShown)) }
