package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
)

func packageOf(entries ...Entry) *Package {
	p := &Package{Name: "quay", DefaultChannel: "stable", Channels: map[string]*Channel{"stable": {"stable", entries}}, Bundles: map[string]*Bundle{}}
	for _, e := range entries {
		_, version, _ := strings.Cut(e.Name, ".v")
		p.Bundles[e.Name] = &Bundle{Name: e.Name, Version: version, Image: "quay.io/quay/bundle:" + version}
	}
	return p
}

func names(u Update) string {
	var all []string
	for _, b := range u.Bundles {
		all = append(all, b.Name)
	}
	if u.Stops {
		all = append(all, "stops")
	}
	return strings.Join(all, " ")
}

// TestFollow: which bundles OLM installs one after the other. The reasons are those of its resolver.
func TestFollow(t *testing.T) {
	chain := []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, {Name: "q.v1.2.0", Replaces: "q.v1.1.0"}}
	for _, tt := range []struct {
		reason    string
		entries   []Entry
		channel   string
		installed Installed
		want      string // bundles, or a part of the error
	}{
		{"each bundle replaces the one before", chain, "stable", Installed{Name: "q.v1.0.0"}, "q.v1.1.0 q.v1.2.0"},
		{"the default channel", chain, "", Installed{Name: "q.v1.1.0"}, "q.v1.2.0"},
		{"the head is installed", chain, "stable", Installed{Name: "q.v1.2.0"}, "q.v1.2.0"},
		{"nothing is installed", chain, "stable", Installed{}, "q.v1.2.0"},
		{"what is installed left the channel long ago", chain, "stable", Installed{Name: "q.v0.1.0", Version: "0.1.0"}, "q.v1.2.0 stops"},
		{"skips are one step", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, {Name: "q.v1.2.0", Replaces: "q.v1.0.0", Skips: []string{"q.v1.1.0"}}}, "stable", Installed{Name: "q.v1.1.0"}, "q.v1.2.0"},
		{"what is skipped is not passed", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, {Name: "q.v1.2.0", Replaces: "q.v1.0.0", Skips: []string{"q.v1.1.0"}}}, "stable", Installed{Name: "q.v1.0.0"}, "q.v1.2.0"},
		{"a range is one step, even from another channel", []Entry{{Name: "q.v1.1.0"}, {Name: "q.v1.2.0", Replaces: "q.v1.1.0", SkipRange: ">=0.9.0 <1.2.0"}}, "stable", Installed{Name: "q.v0.9.1", Version: "0.9.1"}, "q.v1.2.0"},
		{"the nearest to the head comes first", []Entry{{Name: "q.v1.1.0", SkipRange: "<1.1.0"}, {Name: "q.v1.2.0", Replaces: "q.v1.1.0", SkipRange: "<1.2.0"}}, "stable", Installed{Name: "q.v1.0.0", Version: "1.0.0"}, "q.v1.2.0"},
		{"the version comes from the catalog if that has the bundle", []Entry{{Name: "q.v1.1.0"}, {Name: "q.v1.2.0", SkipRange: ">=1.1.0 <1.2.0", Replaces: "q.v1.1.0"}}, "stable", Installed{Name: "q.v1.1.0", Version: "wrong"}, "q.v1.2.0"},
		{"a range says nothing of an unknown version", []Entry{{Name: "q.v1.2.0", SkipRange: "<1.2.0"}}, "stable", Installed{Name: "odd"}, "which of its bundles update odd is not known"},
		{"no such channel", chain, "beta", Installed{}, `it has no channel "beta" (it has stable)`},
		{"two heads", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0"}}, "stable", Installed{}, "2 heads (q.v1.0.0, q.v1.1.0)"},
		{"a circle", []Entry{{Name: "q.v1.0.0", Replaces: "q.v1.1.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}}, "stable", Installed{Name: "q.v1.0.0"}, "no head"},
		{"a circle below the head", []Entry{{Name: "q.v1.0.0", Replaces: "q.v1.1.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, {Name: "q.v1.2.0", Replaces: "q.v1.1.0"}}, "stable", Installed{Name: "q.v1.0.0"}, "its channel stable goes round in a circle at q.v1.1.0"},
		{"what updates the head by its range leads back", []Entry{{Name: "q.v1.0.0", SkipRange: ">=1.1.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}}, "stable", Installed{Name: "q.v1.0.0"}, "its updates go round in a circle at q.v1.0.0"},
		{"an empty channel", nil, "stable", Installed{}, "no head"},
		{"all are skipped", []Entry{{Name: "q.v1.0.0", Skips: []string{"q.v1.0.0"}}}, "stable", Installed{}, "no head"},
		{"a range that is none", []Entry{{Name: "q.v1.2.0", SkipRange: "soon"}}, "stable", Installed{Name: "q.v1.0.0", Version: "1.0.0"}, `skipRange "soon" cannot be read`},
	} {
		u, err := packageOf(tt.entries...).Follow(t.Context(), objects.SubscriptionSpec{Channel: tt.channel}, tt.installed)
		if got := names(u); err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %q and %v, want %q", tt.reason, got, err, tt.want)
		}
	}
	undeclared := packageOf(chain...)
	delete(undeclared.Bundles, "q.v1.1.0")
	if _, err := undeclared.Follow(t.Context(), objects.SubscriptionSpec{}, Installed{Name: "q.v1.0.0"}); err == nil || !strings.Contains(err.Error(), "q.v1.1.0 is in a channel, and not declared") {
		t.Errorf("got %v", err)
	}
}

// TestFollowVersions: which bundles OLM v1 installs.
func TestFollowVersions(t *testing.T) {
	p := packageOf(Entry{Name: "q.v1.0.0"}, Entry{Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, Entry{Name: "q.v1.2.0", Replaces: "q.v1.1.0", SkipRange: ">=1.0.0 <1.2.0"}, Entry{Name: "q.v2.0.0", Replaces: "q.v1.2.0"})
	p.Channels["old"] = &Channel{"old", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}}}
	for _, tt := range []struct {
		reason    string
		channels  []string
		versions  string
		installed Installed
		want      string
	}{
		{"all channels, any version", nil, "", Installed{Name: "q.v1.0.0"}, "q.v1.2.0 q.v2.0.0"},
		{"a version is that version", nil, "1.2.0", Installed{Name: "q.v1.0.0"}, "q.v1.2.0"},
		{"a range ends the way", nil, ">=1.0.0, <2.0.0", Installed{Name: "q.v1.0.0"}, "q.v1.2.0"},
		{"one channel", []string{"old"}, "", Installed{Name: "q.v1.0.0"}, "q.v1.1.0"},
		{"nothing is installed", nil, "", Installed{}, "q.v2.0.0"},
		{"nothing leads to the version", nil, "2.0.0", Installed{Name: "q.v1.0.0"}, "q.v2.0.0 stops"},
		{"no bundle has it", nil, "3.0.0", Installed{}, `none of its bundles has a version in "3.0.0"`},
		{"the ways in which OLM v1 reads ranges", nil, "~1.1", Installed{}, "q.v1.1.0"},
		{"a part of a version", nil, "1.1", Installed{}, "q.v1.1.0"},
		{"a part of a version of one character", nil, "1", Installed{}, "q.v1.2.0"},
		{"a caret", nil, "^1", Installed{}, "q.v1.2.0"},
		{"any", nil, "*", Installed{}, "q.v2.0.0"},
		{"no range", nil, "soon", Installed{}, `the range of versions "soon" cannot be read`},
		{"a range as long as none is", nil, strings.Repeat("1.0.0 || ", 100) + "1.0.0", Installed{}, "a range of versions has 905 characters"},
		{"no such channel", []string{"new", "beta"}, "", Installed{}, `it has no channel "new", "beta" (it has old, stable)`},
		{"one of the channels is no more", []string{"new", "old"}, "", Installed{}, "q.v1.1.0"},
		{"an unknown version is installed", nil, "", Installed{Name: "odd", Version: "odd"}, `the version "odd" of its bundle odd cannot be read`},
	} {
		u, err := p.FollowVersions(t.Context(), objects.CatalogFilter{Channels: tt.channels, Version: tt.versions}, tt.installed)
		if got := names(u); err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %q and %v, want %q", tt.reason, got, err, tt.want)
		}
	}
}

// TestFollowAllChannels: a Subscription that names no channel follows all of them, the default one first.
func TestFollowAllChannels(t *testing.T) {
	p := packageOf(Entry{Name: "q.v1.0.0"}, Entry{Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, Entry{Name: "q.v1.2.0", Replaces: "q.v1.1.0"}, Entry{Name: "q.v1.3.0", Replaces: "q.v1.2.0"})
	all := p.Channels["stable"].Entries
	p.Channels["stable"] = &Channel{"stable", all[:2]}
	p.Channels["alpha"] = &Channel{"alpha", all[2:]}
	for _, tt := range []struct {
		reason    string
		spec      objects.SubscriptionSpec
		installed Installed
		want      string
	}{
		{"the head of the default channel is updated by another", objects.SubscriptionSpec{}, Installed{Name: "q.v1.0.0"}, "q.v1.1.0 q.v1.2.0 q.v1.3.0"},
		{"the head of another is an end, too", objects.SubscriptionSpec{}, Installed{Name: "q.v1.3.0"}, "q.v1.3.0"},
		{"the default channel comes first", objects.SubscriptionSpec{}, Installed{}, "q.v1.1.0 q.v1.2.0 q.v1.3.0"},
		{"one channel ends with its head", objects.SubscriptionSpec{Channel: "stable"}, Installed{Name: "q.v1.0.0"}, "q.v1.1.0"},
		{"it begins with startingCSV", objects.SubscriptionSpec{Channel: "stable", StartingCSV: "q.v1.0.0"}, Installed{}, "q.v1.0.0 q.v1.1.0"},
		{"startingCSV is past", objects.SubscriptionSpec{Channel: "alpha", StartingCSV: "q.v1.2.0"}, Installed{Name: "q.v1.3.0"}, "q.v1.3.0"},
		{"startingCSV is elsewhere", objects.SubscriptionSpec{Channel: "alpha", StartingCSV: "q.v1.0.0"}, Installed{}, "its startingCSV q.v1.0.0 is in no channel that it follows"},
		{"of all channels", objects.SubscriptionSpec{StartingCSV: "q.v1.2.0"}, Installed{}, "q.v1.2.0 q.v1.3.0"},
	} {
		u, err := p.Follow(t.Context(), tt.spec, tt.installed)
		if got := names(u); err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %q and %v, want %q", tt.reason, got, err, tt.want)
		}
	}
	p.Channels["zeta"] = &Channel{"zeta", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0"}}}
	if _, err := p.Follow(t.Context(), objects.SubscriptionSpec{}, Installed{Name: "q.v1.0.0"}); err == nil || !strings.Contains(err.Error(), "its channel zeta has 2 heads") {
		t.Errorf("a channel that OLM cannot sort: got %v", err)
	}
	p.DefaultChannel = "gone"
	if _, err := p.Follow(t.Context(), objects.SubscriptionSpec{}, Installed{}); err == nil || !strings.Contains(err.Error(), `it has no channel "gone"`) {
		t.Errorf("no default channel: got %v", err)
	}
}

// TestVersions: how OLM v1 orders bundles: deprecated ones last, rebuilds by their build metadata.
func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		reason     string
		entries    []Entry
		deprecated string
		wants      objects.CatalogFilter
		installed  Installed
		want       string
	}{
		{"a rebuild is newer", []Entry{{Name: "q.v1.2.3+0.1661865180.p"}, {Name: "q.v1.2.3"}, {Name: "q.v1.2.3+0.1661865190.p"}}, "", objects.CatalogFilter{}, Installed{}, "q.v1.2.3+0.1661865190.p"},
		{"a rebuild updates what is installed", []Entry{{Name: "q.v1.2.3"}, {Name: "q.v1.2.3+1", Replaces: "q.v1.2.3"}}, "", objects.CatalogFilter{}, Installed{Name: "q.v1.2.3", Version: "1.2.3"}, "q.v1.2.3+1"},
		{"metadata that is no release is metadata", []Entry{{Name: "q.v1.2.3+01"}, {Name: "q.v1.2.3+1"}}, "", objects.CatalogFilter{}, Installed{}, "q.v1.2.3+1"},
		{"a release is short", []Entry{{Name: "q.v1.2.3+1"}, {Name: "q.v1.2.3+999999999999999999999"}}, "", objects.CatalogFilter{}, Installed{}, "q.v1.2.3+1"},
		{"what is deprecated comes last", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0"}}, "q.v1.1.0", objects.CatalogFilter{}, Installed{}, "q.v1.0.0"},
		{"it is taken all the same if there is nothing else", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0"}}, "q.v1.1.0", objects.CatalogFilter{Version: ">1.0.0"}, Installed{}, "q.v1.1.0"},
		{"no update to what is deprecated", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}}, "q.v1.1.0", objects.CatalogFilter{}, Installed{Name: "q.v1.0.0", Version: "1.0.0"}, "q.v1.0.0"},
		{"no range has a prerelease unless it names one", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0-rc.1"}}, "", objects.CatalogFilter{Version: ">=1.0.0"}, Installed{}, "q.v1.0.0"},
		{"without a range, prereleases count", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0-rc.1"}}, "", objects.CatalogFilter{}, Installed{}, "q.v1.1.0-rc.1"},
		{"a range that names one", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0-rc.1"}}, "", objects.CatalogFilter{Version: ">=1.0.0-0"}, Installed{}, "q.v1.1.0-rc.1"},
		{"who certifies updates goes straight to the highest", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, {Name: "q.v3.0.0"}}, "", objects.CatalogFilter{UpgradeConstraintPolicy: "SelfCertified"}, Installed{Name: "q.v1.0.0", Version: "1.0.0"}, "q.v3.0.0"},
		{"and who does not, does not get there", []Entry{{Name: "q.v1.0.0"}, {Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, {Name: "q.v3.0.0"}}, "", objects.CatalogFilter{UpgradeConstraintPolicy: "CatalogProvided"}, Installed{Name: "q.v1.0.0", Version: "1.0.0"}, "q.v1.1.0 q.v3.0.0 stops"},
	} {
		for range 20 { // maps have no order
			p := packageOf()
			for i, e := range tt.entries {
				channel := fmt.Sprintf("c%d", i)
				p.Channels[channel] = &Channel{channel, []Entry{e}}
				p.Bundles[e.Name] = packageOf(e).Bundles[e.Name]
			}
			delete(p.Channels, "stable")
			p.Deprecated = map[string]bool{tt.deprecated: true}
			if u, err := p.FollowVersions(t.Context(), tt.wants, tt.installed); err != nil || names(u) != tt.want {
				t.Errorf("%s: got %q and %v, want %q", tt.reason, names(u), err, tt.want)
				break
			}
		}
	}
}

// TestRequired: which bundle OLM installs for another that requires its package.
func TestRequired(t *testing.T) {
	p := packageOf(Entry{Name: "q.v1.0.0"}, Entry{Name: "q.v1.1.0", Replaces: "q.v1.0.0"}, Entry{Name: "q.v2.0.0", Replaces: "q.v1.1.0"}, Entry{Name: "q.v3.0.0"})
	all := p.Channels["stable"].Entries
	p.Channels["stable"] = &Channel{"stable", all[:2]}
	p.Channels["alpha"] = &Channel{"alpha", all[2:3]}
	p.Channels["zeta"] = &Channel{"zeta", all[3:]}
	for versions, want := range map[string]string{
		">=1.0.0":            "q.v1.1.0", // the head of the default channel, though others have higher versions
		"<1.1.0":             "q.v1.0.0",
		">=2.0.0":            "q.v2.0.0",
		">=3.0.0":            "q.v3.0.0",
		">=4.0.0":            `none of its bundles has a version in ">=4.0.0"`,
		"soon":               `the range of versions "soon" cannot be read`,
		"":                   `the range of versions "" cannot be read`,
		"1":                  `the range of versions "1" cannot be read`,
		">=5.0.0 || || <2":   "cannot be read",
		">=5.0.0 || x || <2": "cannot be read",
	} {
		b, err := p.Required(versions)
		if err == nil && b.Name != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %s", versions, b, err, want)
		}
	}
}

// TestFollowPanics: the library that reads ranges makes functions of some that panic.
func TestFollowPanics(t *testing.T) {
	_, err := packageOf(Entry{Name: "q.v1.2.0", SkipRange: ">=5.0.0 || || <2.0.0"}).Follow(t.Context(), objects.SubscriptionSpec{Channel: "stable"}, Installed{Name: "q.v0.1.0", Version: "3.0.0"})
	if err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v", err)
	}
}

// TestFollowMany: the longest of channels are followed in no time, and one that leads through too many bundles is not.
func TestFollowMany(t *testing.T) {
	entries := []Entry{{Name: "q.v0.0.0"}}
	for i := 1; i < maxEntries; i++ {
		entries = append(entries, Entry{Name: fmt.Sprintf("q.v0.0.%d", i), Replaces: entries[i-1].Name, SkipRange: strings.Repeat("<0.0.1 || ", 20) + fmt.Sprintf("<0.0.%d", i/2)})
	}
	p := packageOf(entries...)
	u, err := p.Follow(t.Context(), objects.SubscriptionSpec{Channel: "stable"}, Installed{Name: "q.v0.0.1"})
	if err != nil || len(u.Bundles) != 1 {
		t.Errorf("got %d bundles, %v", len(u.Bundles), err)
	}
	for i := range entries {
		entries[i].SkipRange = "<0.0.0"
	}
	if _, err := packageOf(entries...).Follow(t.Context(), objects.SubscriptionSpec{Channel: "stable"}, Installed{Name: "q.v0.0.1"}); err == nil || !strings.Contains(err.Error(), "passes through more than 1000 bundles") {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Follow(ended, objects.SubscriptionSpec{Channel: "stable"}, Installed{Name: "q.v0.0.1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for it: got %v", err)
	}
}
