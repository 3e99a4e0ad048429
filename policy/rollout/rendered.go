package rollout

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// Rendered is a MachineConfig that MCO rendered for a pool: all that a node has of it.
type Rendered struct {
	Name string
	// Files are its files by path: those that say where nodes pull from with their content,
	// all others with a hash of it.
	Files Files
	// Units are hashes of its systemd units, by name; Users is one of its users.
	Units map[string]string
	Users string
	// The operating system: OSImage is osImageURL, ExtensionsImage
	// baseOSExtensionsContainerImage.
	OSImage, ExtensionsImage, KernelType string
	KernelArguments, Extensions          []string
	FIPS                                 bool
}

// ErrGone says that a rendered config was asked for, and is not in the cluster.
var ErrGone = errors.New("it is not in the cluster")

// IsGone reports whether err says so, and not merely that the config could not be read.
func IsGone(err error) bool { return errors.Is(err, ErrGone) }

// Changes are the differences between two rendered configs.
type Changes struct {
	// Registries are the entries of registries.conf that differ.
	Registries []RegistryChange
	// Files are the paths of other files that differ, Units the systemd units, both sorted.
	Files []string
	Units []string
	// System says in words what else differs: the OS image, kernel arguments, and so on.
	System []string
}

// RegistryChange is an entry of a file before and after, in words; "" if there is none.
type RegistryChange struct {
	// File is the path of the file, "" for registries.conf and its drop-ins.
	File   string
	Scope  string
	Before string
	After  string
}

// IsEmpty reports whether nothing differs.
func (c Changes) IsEmpty() bool {
	return len(c.Registries)+len(c.Files)+len(c.Units)+len(c.System) == 0
}

// Scopes are those of Registries.
func (c Changes) Scopes() []string {
	return convert.Each(c.Registries, func(r RegistryChange) string { return r.Scope })
}

// And returns what either of two changes brings.
func (c Changes) And(other Changes) Changes {
	sorted := func(a, b []string) []string { return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b)))) }
	all := Changes{Registries: slices.Clone(c.Registries), Files: sorted(c.Files, other.Files), Units: sorted(c.Units, other.Units), System: slices.Clone(c.System)}
	for _, r := range other.Registries {
		same := func(known RegistryChange) bool { return known.File == r.File && known.Scope == r.Scope }
		if !slices.ContainsFunc(c.Registries, same) {
			all.Registries = append(all.Registries, r)
		}
	}
	for _, words := range other.System {
		if !slices.Contains(c.System, words) {
			all.System = append(all.System, words)
		}
	}
	return all
}

// ChangesTo returns in what next differs from r.
func (r *Rendered) ChangesTo(next *Rendered) Changes {
	c := Changes{Units: changedUnits(r.Units, next.Units)}
	for _, file := range changedPaths(r.Files, next.Files) {
		if mirrors.IsRegistriesFile(path.Clean(file)) {
			continue // by its entries, below
		}
		c.Files = append(c.Files, file)
	}
	differences, err := PullDifferences(r.Files, next.Files)
	differences = slices.DeleteFunc(differences, func(c RegistryChange) bool { return c.File != "" })
	if err != nil {
		c.System = append(c.System, err.Error())
	}
	c.Registries = differences
	if len(differences) == 0 { // differently written, or in a file beside it
		for _, file := range changedPaths(r.Files, next.Files) {
			if mirrors.IsRegistriesFile(path.Clean(file)) {
				c.Files = append(c.Files, file)
			}
		}
		slices.Sort(c.Files)
	}
	c.System = append(c.System, r.systemChanges(next)...)
	if r.Users != next.Users {
		c.System = append(c.System, "users or their SSH keys")
	}
	return c
}

// PullDifferences returns in what the files of two rendered configs differ, of all that MCO generates for registries:
// policy.json and registries.d too.
func PullDifferences(before, after Files) ([]RegistryChange, error) {
	was, err := tableOf(before)
	if err != nil {
		return nil, err
	}
	is, err := tableOf(after)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(mirrors.Differences(was.Config(), is.Config()), mirrors.PolicyDifferences(was, is))
	return convert.Each(all, func(d mirrors.Difference) RegistryChange {
		return RegistryChange{File: d.File, Scope: d.Scope, Before: d.Objects, After: d.MachineConfig}
	}), nil
}

// Routes returns the routes of nodes that have r.
func (r *Rendered) Routes() (*mirrors.Table, error) {
	table, err := tableOf(r.Files)
	if err != nil {
		return nil, fmt.Errorf("MachineConfig %s: %w", r.Name, err)
	}
	return table, nil
}

func tableOf(files Files) (*mirrors.Table, error) {
	set := mirrors.Set{Applied: &mirrors.Applied{Files: map[string][]byte{}}}
	for file, contents := range files {
		switch {
		case file == mirrors.RegistriesConfPath || file == mirrors.SearchDropInPath || policyfile.IsPolicyFile(file):
			set.Applied.Files[file] = contents
		case mirrors.IsRegistriesFile(file):
			set.Files = append(set.Files, mirrors.File{Role: workerPool, Path: file, Contents: contents})
		}
	}
	return mirrors.ResolveApplied(set)
}

func changedUnits(before, after map[string]string) []string {
	var changed []string
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, had := before[name]
		is, has := after[name]
		if was != is || had != has {
			changed = append(changed, name)
		}
	}
	return changed
}

// systemChanges says what differs that makes a node reboot whatever policies say.
func (r *Rendered) systemChanges(next *Rendered) []string {
	var changes []string
	from := func(what, was, is string) {
		if was != is {
			changes = append(changes, fmt.Sprintf("%s from %q to %q", what, was, is))
		}
	}
	list := func(what string, was, is []string) {
		if !slices.Equal(was, is) {
			changes = append(changes, fmt.Sprintf("%s from %q to %q", what, strings.Join(was, " "), strings.Join(is, " ")))
		}
	}
	from("the OS image", r.OSImage, next.OSImage)
	from("the image of extensions", r.ExtensionsImage, next.ExtensionsImage)
	from("the kernel type", r.KernelType, next.KernelType)
	list("kernel arguments", r.KernelArguments, next.KernelArguments)
	list("extensions", r.Extensions, next.Extensions)
	if r.FIPS != next.FIPS {
		changes = append(changes, "FIPS mode")
	}
	return changes
}

// Decide returns what MCO does on a node that goes from r to next. Changes of the operating
// system make nodes reboot; those of units do so unless a policy covers them
// (calculatePostConfigChangeNodeDisruptionAction, update.go). Where they do, they are among
// the Changed of the Decision, in words.
func (r *Rendered) Decide(next *Rendered, c Conditions) (Decision, error) {
	reboots := r.rebootCauses(next, c)
	if len(reboots) == 0 {
		return r.decideWithUnits(next, c)
	}
	return Decision{
		Changed: append(changedPaths(r.Files, next.Files), reboots...),
		Actions: []action{{Type: operatorv1.RebootStatusAction}},
		Drains:  !c.SingleNode,
	}, nil
}

// rebootCauses says what apart from files makes a node reboot.
func (r *Rendered) rebootCauses(next *Rendered, c Conditions) []string {
	causes := r.systemChanges(next)
	for _, unit := range changedUnits(r.Units, next.Units) {
		if unitPolicy(unit, c) == nil {
			causes = append(causes, "unit "+unit)
		}
	}
	return causes
}

// decideWithUnits is Decide where all that changes has policies; users always do.
func (r *Rendered) decideWithUnits(next *Rendered, c Conditions) (Decision, error) {
	d, err := Decide(r.Files, next.Files, c)
	for _, unit := range changedUnits(r.Units, next.Units) {
		d.Changed = append(d.Changed, "unit "+unit)
		d.Actions = append(slices.Clone(d.Actions), unitPolicy(unit, c).Actions...)
	}
	if r.Users != next.Users {
		d.Changed = append(d.Changed, "users")
		d.Actions = append(slices.Clone(d.Actions), PoliciesOf(c.Machines).SSHKey.Actions...)
	}
	if has(d.Actions, operatorv1.RebootStatusAction) || has(d.Actions, operatorv1.DrainStatusAction) {
		d.Drains = !c.SingleNode
	}
	return d, err
}

func unitPolicy(unit string, c Conditions) *operatorv1.NodeDisruptionPolicyStatusUnit {
	units := PoliciesOf(c.Machines).Units
	i := slices.IndexFunc(units, func(u operatorv1.NodeDisruptionPolicyStatusUnit) bool { return string(u.Name) == unit })
	if i < 0 {
		return nil
	}
	return &units[i]
}
