package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	mastermind "github.com/Masterminds/semver/v3"
	"github.com/blang/semver/v4"
)

// A version is that of a bundle, as OLM v1 compares them: build metadata counts as a release where it can be read as one, since
// rebuilds are named so (operator-controller, internal/operator-controller/bundleutil, ParseLegacyVersionRelease).
type version struct {
	semver.Version
	release []semver.PRVersion
}

// maxRelease is how long a release may be (operator-registry, alpha/model/versionrelease.go).
const maxRelease = 20

func released(v semver.Version) version {
	build := strings.Join(v.Build, ".")
	if build == "" || len(build) > maxRelease {
		return version{Version: v}
	}
	var release []semver.PRVersion
	for _, part := range v.Build {
		identifier, err := semver.NewPRVersion(part)
		if err != nil {
			return version{Version: v}
		}
		release = append(release, identifier)
	}
	v.Build = nil
	return version{v, release}
}

// compare returns how a version compares to another: one with a release is higher than one without.
func (v version) compare(other version) int {
	if c := v.Compare(other.Version); c != 0 {
		return c
	}
	if len(v.release) == 0 || len(other.release) == 0 {
		return cmp.Compare(len(v.release), len(other.release))
	}
	return semver.Version{Pre: v.release}.Compare(semver.Version{Pre: other.release})
}

// bundle returns one of a channel, and its version.
func (p *Package) bundle(name string) (*Bundle, semver.Version, error) {
	b := p.Bundles[name]
	if b == nil {
		return nil, semver.Version{}, undeclared(name)
	}
	v, err := semver.Parse(b.Version)
	if err != nil {
		return nil, semver.Version{}, fmt.Errorf("the version %q of its bundle %s cannot be read", shown(b.Version), shown(name))
	}
	return b, v, nil
}

// byVersion returns the entries whose bundles have versions in a range, in the order in which OLM v1 prefers them, and their
// versions. A bundle that is in several channels has an entry for each.
func (p *Package) byVersion(entries []Entry, in semver.Range) ([]Entry, []version, error) {
	versions := map[string]version{}
	for _, e := range entries {
		_, v, err := p.bundle(e.Name)
		if err != nil {
			return nil, nil, err
		}
		versions[e.Name] = released(v)
	}
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !in(versions[e.Name].Version) })
	slices.SortStableFunc(entries, func(a, b Entry) int {
		if d := p.Deprecated[a.Name]; d != p.Deprecated[b.Name] {
			return map[bool]int{true: 1, false: -1}[d]
		}
		return cmp.Or(versions[b.Name].compare(versions[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	sorted := make([]version, len(entries))
	for i, e := range entries {
		sorted[i] = versions[e.Name]
	}
	return entries, sorted, nil
}

// maxRange is how long a range may be. A ClusterExtension's has no more than 64 characters.
const maxRange = 256

// parseRange reads a range as OLM does. The library returns nil for one without a comparison, and a function that panics
// for one with such a part.
func parseRange(s string) (semver.Range, error) {
	if len(s) > maxRange {
		return nil, fmt.Errorf("a range of versions has %d characters", len(s))
	}
	in, err := semver.ParseRange(s)
	for part := range strings.SplitSeq(s, "||") {
		if one, fault := semver.ParseRange(part); err != nil || fault != nil || one == nil {
			return nil, fmt.Errorf("the range of versions %q cannot be read", shown(s))
		}
	}
	return in, nil
}

// wantedRange reads the versions that a ClusterExtension wants as OLM v1 does, which is another way; "" for any
// (operator-controller, internal/operator-controller/catalogmetadata/compare).
func wantedRange(s string) (semver.Range, error) {
	if s == "" {
		return func(semver.Version) bool { return true }, nil
	}
	if len(s) > maxRange { // before it is parsed
		return nil, fmt.Errorf("a range of versions has %d characters", len(s))
	}
	constraint, err := mastermind.NewConstraint(s)
	if err != nil {
		return nil, fmt.Errorf("the range of versions %q cannot be read", shown(s))
	}
	return func(v semver.Version) bool {
		pre := make([]string, len(v.Pre))
		for i := range v.Pre {
			pre[i] = v.Pre[i].String()
		}
		return constraint.Check(mastermind.New(v.Major, v.Minor, v.Patch, strings.Join(pre, "."), strings.Join(v.Build, ".")))
	}, nil
}

func errNoVersion(versions string) error {
	return fmt.Errorf("none of its bundles has a version in %q", shown(versions))
}
