package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Rendering holds the files of nodes before and after a change, as JSON (kind Rendering).
type Rendering struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Before and After are registries.conf, as TOML. They are equal without a change.
	Before string `json:"before"`
	After  string `json:"after"`
	// Diff is the unified diff of the two, "" if they are equal.
	Diff string `json:"diff"`
	// Files are the others, which say what nodes require of images and where they look for
	// signatures, sorted by path: policy.json, those of namespaces with an ImagePolicy, and
	// the one of registries.d.
	Files []RenderedFile `json:"files"`
	// MachineConfig compares the objects in force with what nodes are given.
	MachineConfig Comparison `json:"machineConfig"`
}

// A RenderedFile is a file of nodes as MCO writes it, "" where there is none.
type RenderedFile struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
	// Diff is the unified diff of the two, "" if they are equal.
	Diff string `json:"diff"`
}

// A Comparison says whether MCO has applied the objects in force.
type Comparison struct {
	Name  string          `json:"name"`
	State ComparisonState `json:"state"`
	// Detail is why the state is not known, "" otherwise.
	Detail string `json:"detail"`
	// Differences are the entries that differ, sorted by scope.
	Differences []Difference `json:"differences"`
	// SparesPayload is set if a difference may be intended: a blocked registry that holds the
	// release image and has no mirror is left out on purpose, and that image is not known.
	SparesPayload bool `json:"-"`
}

// A ComparisonState is the result of a Comparison in a word.
type ComparisonState string

// The states of a Comparison.
const (
	StateApplied  ComparisonState = "applied"  // the MachineConfig says what the objects say
	StateDiffers  ComparisonState = "differs"  // it says something else
	StateRejected ComparisonState = "rejected" // MCO rejects the objects and applies nothing; where JSON is asked for, that is an error
	StateUnknown  ComparisonState = "unknown"  // it was not found or could not be read
)

// A Difference is a mirrors.Difference as JSON.
type Difference struct {
	// File is the path of the file, "" for registries.conf and its drop-ins.
	File          string `json:"file,omitempty"`
	Scope         string `json:"scope"` // or "unqualified-search-registries", "all other images"
	Objects       string `json:"objects"`
	MachineConfig string `json:"machineConfig"`
}

// Render renders the configuration before and after a change. That MCO rejects the one before
// is an error only if needsBefore is set, so that a change that repairs an invalid
// configuration can be rendered.
//
// applied returns what MCO last wrote for the nodes; its error says why that is not known.
func Render(change policy.Change, needsBefore bool, applied func() (*mirrors.Applied, error)) (*Rendering, error) {
	r := &Rendering{APIVersion: APIVersion, Kind: "Rendering"}
	before, rejected := resolve(change.Before, "in force")
	if rejected != nil && needsBefore {
		return nil, rejected
	}
	after, err := resolve(change.After, "after the change")
	if err != nil {
		return nil, err
	}
	if r.After, err = after.RegistriesConf(); err != nil {
		return nil, err
	}
	if rejected != nil {
		r.MachineConfig = withoutComparison(rejected)
		r.Files, err = renderedFiles(nil, &change.After)
		return r, err
	}
	if r.Before, err = before.RegistriesConf(); err != nil {
		return nil, err
	}
	r.MachineConfig = compare(before, applied)
	if r.Diff, err = diff("registries.conf", r.Before, r.After); err != nil {
		return nil, err
	}
	r.Files, err = renderedFiles(&change.Before, &change.After)
	return r, err
}

// renderedFiles returns the files that are about signatures. Before is nil where MCO rejects
// what is in force.
func renderedFiles(before, after *mirrors.Set) ([]RenderedFile, error) {
	byPath := map[string]*RenderedFile{}
	for _, set := range []*mirrors.Set{before, after} {
		if set == nil {
			continue
		}
		files, err := mirrors.Rendered(*set)
		if err != nil {
			return nil, err
		}
		for path, contents := range files {
			if !mirrors.IsPolicyFile(path) {
				continue
			}
			if byPath[path] == nil {
				byPath[path] = &RenderedFile{Path: path}
			}
			if set == before {
				byPath[path].Before = asText(contents)
			}
			if set == after {
				byPath[path].After = asText(contents)
			}
		}
	}
	all := []RenderedFile{}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		f := *byPath[path]
		if before != nil {
			var err error
			if f.Diff, err = diff(path, f.Before, f.After); err != nil {
				return nil, err
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// asText returns a file with a line feed at its end, which MCO leaves out.
func asText(contents []byte) string {
	return strings.TrimRight(string(contents), "\n") + "\n"
}

func diff(name, before, after string) (string, error) {
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: splitLines(before), FromFile: name + " in force",
		B: splitLines(after), ToFile: name + " after the change",
		Context: 3,
	})
}

func newComparison() Comparison {
	return Comparison{Name: mirrors.GeneratedRegistries, Differences: []Difference{}}
}

// withoutComparison says why objects that cannot be resolved are not compared.
func withoutComparison(rejected error) Comparison {
	c := newComparison()
	c.State, c.Detail = StateRejected, rejected.Error()
	if isTooMuch(rejected) {
		c.State = StateUnknown
	}
	return c
}

// compare compares what the objects in force say with what nodes are given.
func compare(inForce mirrors.Resolution, applied func() (*mirrors.Applied, error)) Comparison {
	c := newComparison()
	nodesHave, err := resolveApplied(applied)
	if err != nil {
		c.State, c.Detail = StateUnknown, err.Error()
		return c
	}
	generated := inForce.Set
	generated.Files = nil // which other MachineConfigs bring
	objects, err := mirrors.Resolve(generated)
	if err != nil {
		c.State, c.Detail = StateUnknown, err.Error()
		return c
	}
	c.State = StateApplied
	for _, d := range slices.Concat(mirrors.Differences(objects.Config(), nodesHave.Config()), mirrors.PolicyDifferences(objects, nodesHave)) {
		c.State = StateDiffers
		c.Differences = append(c.Differences, Difference(d))
		c.SparesPayload = c.SparesPayload || inForce.Set.MayBeSpared(d)
	}
	return c
}

func resolveApplied(applied func() (*mirrors.Applied, error)) (*mirrors.Table, error) {
	files, err := applied()
	if err != nil {
		return nil, err
	}
	table, err := mirrors.ResolveApplied(mirrors.Set{Applied: files})
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfig %s: %w", mirrors.GeneratedRegistries, err)
	}
	return table, nil
}

// splitLines keeps the line feeds, and unlike difflib's function of that name makes no line
// of the nothing after the last one.
func splitLines(text string) []string { return slices.Collect(strings.Lines(text)) }
