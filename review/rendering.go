package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// Render renders the configuration before and after a change. A rejection of the one before by MCO is
// an error only if needsBefore is set, so that a change that repairs an invalid configuration can be
// rendered.
//
// applied returns what MCO last wrote for the nodes; its error says why that is not known.
func Render(change policy.Change, needsBefore bool, applied func() (*mirrors.Applied, error)) (*v1alpha1.Rendering, error) {
	r := &v1alpha1.Rendering{APIVersion: v1alpha1.APIVersion, Kind: "Rendering"}
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

// renderedFiles returns the files that are about signatures. Before is nil where MCO rejects the
// configuration in force.
func renderedFiles(before, after *mirrors.Set) ([]v1alpha1.RenderedFile, error) {
	byPath := map[string]*v1alpha1.RenderedFile{}
	for _, set := range []*mirrors.Set{before, after} {
		if set == nil {
			continue
		}
		files, err := mirrors.Rendered(*set)
		if err != nil {
			return nil, err
		}
		for path, contents := range files {
			if !policyfile.IsPolicyFile(path) {
				continue
			}
			if byPath[path] == nil {
				byPath[path] = &v1alpha1.RenderedFile{Path: path}
			}
			if set == before {
				byPath[path].Before = asText(contents)
			}
			if set == after {
				byPath[path].After = asText(contents)
			}
		}
	}
	all := []v1alpha1.RenderedFile{}
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

func newComparison() v1alpha1.Comparison {
	return v1alpha1.Comparison{Name: mirrors.GeneratedRegistries, Differences: []v1alpha1.Difference{}}
}

// withoutComparison says why objects that cannot be resolved are not compared.
func withoutComparison(rejected error) v1alpha1.Comparison {
	c := newComparison()
	c.State, c.Detail = v1alpha1.StateRejected, rejected.Error()
	if isTooMuch(rejected) {
		c.State = v1alpha1.StateUnknown
	}
	return c
}

// compare compares the configuration of the objects in force with the one that nodes are given.
func compare(inForce mirrors.Resolution, applied func() (*mirrors.Applied, error)) v1alpha1.Comparison {
	c := newComparison()
	nodesHave, err := resolveApplied(applied)
	if err != nil {
		c.State, c.Detail = v1alpha1.StateUnknown, err.Error()
		return c
	}
	generated := inForce.Set
	generated.Files = nil // which other MachineConfigs bring
	objects, err := mirrors.Resolve(generated)
	if err != nil {
		c.State, c.Detail = v1alpha1.StateUnknown, err.Error()
		return c
	}
	c.State = v1alpha1.StateApplied
	for _, d := range slices.Concat(mirrors.Differences(objects.Config(), nodesHave.Config()), mirrors.PolicyDifferences(objects, nodesHave)) {
		c.State = v1alpha1.StateDiffers
		c.Differences = append(c.Differences, v1alpha1.Difference(d))
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
