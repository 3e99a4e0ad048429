package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A comparison says whether MCO has applied the objects in force.
type comparison struct {
	Name  string `json:"name"`
	State string `json:"state"` // one of those below
	// Detail is why the state is not known, "" otherwise.
	Detail string `json:"detail"`
	// Differences are the entries that differ, sorted by scope.
	Differences []difference `json:"differences"`

	hint string
}

// The states of a comparison.
const (
	stateApplied  = "applied"  // the MachineConfig says what the objects say
	stateDiffers  = "differs"  // it says something else
	stateRejected = "rejected" // MCO rejects the objects and applies nothing; where JSON is asked for, that is an error
	stateUnknown  = "unknown"  // it was not found or could not be read
)

// A difference is one entry of registries.conf, in words, "" where it is missing.
type difference struct {
	Scope         string `json:"scope"` // or "unqualified-search-registries"
	Objects       string `json:"objects"`
	MachineConfig string `json:"machineConfig"`
}

// An appliedSource knows what nodes have: a *cluster.Inventory, or a *snapshot.Snapshot.
type appliedSource interface {
	Applied(context.Context) (*mirrors.Applied, error)
}

// readApplied returns the registries.conf that nodes have.
func readApplied(ctx context.Context, from any) (conf sysregistriesv2.V2RegistriesConf, err error) {
	source, ok := from.(appliedSource)
	if !ok {
		return conf, objects.ErrNotApplied
	}
	applied, err := source.Applied(ctx)
	if err != nil {
		return conf, err
	}
	table, err := mirrors.ResolveApplied(mirrors.Set{Applied: applied})
	if err != nil {
		return conf, fmt.Errorf("reading MachineConfig %s: %w", mirrors.GeneratedRegistries, err)
	}
	return table.Config(), nil
}

func (r *rendering) compare(ctx context.Context, set mirrors.Set, from any) comparison {
	c := comparison{Name: mirrors.GeneratedRegistries, Differences: []difference{}}
	if isTooMuch(r.rejected) {
		c.State, c.Detail = stateUnknown, r.rejected.Error()
		return c
	}
	if r.rejected != nil {
		c.State, c.Detail = stateRejected, r.rejected.Error()
		return c
	}
	applied, err := readApplied(ctx, from)
	if err != nil {
		c.State, c.Detail = stateUnknown, err.Error()
		return c
	}
	c.Differences = differences(r.inForce.Config(), applied)
	c.State = stateApplied
	if len(c.Differences) > 0 {
		c.State, c.hint = stateDiffers, payloadHint(set, c.Differences)
	}
	return c
}

// text tells the comparison to a person.
func (c comparison) text() string {
	switch c.State {
	case stateApplied:
		return fmt.Sprintf("MachineConfig %s says what the objects in force say: the Machine Config Operator has applied them.\n", c.Name)
	case stateRejected:
		return fmt.Sprintf("The Machine Config Operator is stuck, and will stay so until the objects are repaired.\n%s\n", c.Detail)
	case stateUnknown:
		return fmt.Sprintf("Whether the Machine Config Operator has applied the objects in force is not known: %s.\n", c.Detail)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "MachineConfig %s is not what the objects in force say:\n", c.Name)
	for i, d := range c.Differences {
		if i == maxDifferences {
			fmt.Fprintf(&b, "- and %d more\n", len(c.Differences)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n    objects:       %s\n    MachineConfig: %s\n", text.Line(d.Scope), orNone(d.Objects), orNone(d.MachineConfig))
	}
	b.WriteString(c.hint + `The Machine Config Operator is still at work, or stuck. Nodes keep what the
MachineConfig says. To find out why:
  oc -n openshift-machine-config-operator logs deploy/machine-config-controller
`)
	return b.String()
}

// maxDifferences keeps the advice below them on the screen.
const maxDifferences = 6

func orNone(words string) string {
	if words == "" {
		return "(no entry)"
	}
	return text.Line(words)
}

// payloadHint explains a difference that is meant: MCO leaves out of
// blockedRegistries what would block the release image, if that has no mirror
// (getValidBlockedAndAllowedRegistries).
func payloadHint(set mirrors.Set, all []difference) string {
	for _, d := range all {
		if slices.ContainsFunc(set.Registries.BlockedRegistries, func(listed string) bool { return sameScope(listed, d.Scope) }) &&
			strings.HasPrefix(d.Objects, "blocked") && !strings.HasPrefix(d.MachineConfig, "blocked") {
			return "A blocked registry that holds the release image and has no mirror is left out on purpose.\n"
		}
	}
	return ""
}

// differences compares two files entry by entry, in the form the runtime gives
// them when it reads them.
func differences(objects, applied sysregistriesv2.V2RegistriesConf) []difference {
	all := []difference{}
	was, is := entriesByScope(objects), entriesByScope(applied)
	for _, scope := range slices.Sorted(maps.Keys(union(was, is))) {
		if was[scope] != is[scope] {
			all = append(all, difference{scope, was[scope], is[scope]})
		}
	}
	const search = "unqualified-search-registries"
	if o, m := objects.UnqualifiedSearchRegistries, applied.UnqualifiedSearchRegistries; !slices.Equal(o, m) {
		all = append(all, difference{search, strings.Join(o, ", "), strings.Join(m, ", ")})
	}
	return all
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// entriesByScope puts each entry into words that are equal if and only if a node
// does the same.
func entriesByScope(conf sysregistriesv2.V2RegistriesConf) map[string]string {
	entries := map[string]string{}
	for _, r := range conf.Registries {
		scope := strings.TrimRight(r.Prefix, "/")
		if scope == "" {
			scope = strings.TrimRight(r.Location, "/")
		}
		entries[scope] = entryInWords(scope, r)
	}
	return entries
}

func entryInWords(scope string, r sysregistriesv2.Registry) string {
	var words []string
	if r.Blocked {
		words = append(words, "blocked")
	}
	if r.Insecure {
		words = append(words, "insecure")
	}
	if location := strings.TrimRight(r.Location, "/"); location != "" && location != scope {
		words = append(words, "location "+location)
	}
	for _, m := range r.Mirrors {
		words = append(words, mirrorInWords(m, r.MirrorByDigestOnly))
	}
	if len(words) == 0 {
		return "no setting"
	}
	return strings.Join(words, ", ")
}

// mirrorInWords takes MCO's old way to say that all mirrors of an entry are for
// digests for the new one.
func mirrorInWords(m sysregistriesv2.Endpoint, digestOnly bool) string {
	kind := "all pulls"
	switch {
	case digestOnly || m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly:
		kind = "digests"
	case m.PullFromMirror == sysregistriesv2.MirrorByTagOnly:
		kind = "tags"
	}
	if m.Insecure {
		kind += ", insecure"
	}
	return fmt.Sprintf("mirror %s (%s)", strings.TrimRight(m.Location, "/"), kind)
}
