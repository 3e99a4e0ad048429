package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout/status"
)

// TargetDifference is the difference between the rendered config that a pool is to get and what mirror
// objects and MachineConfigs ask for.
type TargetDifference struct {
	Pool, Config string
	// Entries are those that are asked for (After) and those of the config (Before).
	Entries []rollout.RegistryChange
}

// String says it in a sentence.
func (d TargetDifference) String() string {
	return fmt.Sprintf("MachineConfigPool %s is to get %s, which is not what mirror objects and MachineConfigs ask for: %s", d.Pool, d.Config, DifferenceText(d.Entries))
}

// TargetDifferences compares what pools are to get with what set asks for, where both are known. A set
// that MCO rejects has none, as MCO renders nothing.
func TargetDifferences(in status.Input, set mirrors.Set) []TargetDifference {
	if _, err := mirrors.Resolve(set); err != nil {
		return nil
	}
	var all []TargetDifference
	for _, p := range in.Cluster.Pools {
		target := p.Spec.Configuration.Name
		config := in.Rendered[target]
		if config == nil || p.DeletionTimestamp != nil || !TakesMirrors(in.Cluster, p.Name) {
			continue
		}
		entries, err := PullDifferences(set, p.Name, config)
		if err == nil && len(entries) > 0 && !MaySpare(set, entries) {
			all = append(all, TargetDifference{p.Name, target, entries})
		}
	}
	return all
}

// TakesMirrors reports whether a pool selects what MCO generates for registries.
func TakesMirrors(c rollout.Cluster, pool string) bool {
	return slices.ContainsFunc(rollout.Cluster{Pools: c.Pools}.Members().Pools, func(p rollout.Pool) bool {
		return p.Name == pool && p.Part != rollout.Unselected && p.Part != rollout.Invalid
	})
}

// entryName names the entry with its file, unless that is registries.conf.
func entryName(c rollout.RegistryChange) string {
	if c.File == "" {
		return c.Scope
	}
	return c.File + ": " + c.Scope
}

// DifferenceText names the first of differences, and counts the others.
func DifferenceText(differences []rollout.RegistryChange) string {
	c := differences[0]
	words := fmt.Sprintf("%s: rendered is %s, asked for is %s", entryName(c), cmp.Or(c.Before, "no entry"), cmp.Or(c.After, "no entry"))
	if more := len(differences) - 1; more > 0 {
		words += fmt.Sprintf(" (and %s)", text.Plural(more, "more entry", "more entries"))
	}
	return words
}

// PayloadUnknown is why it is not known whether nodes lack something.
const PayloadUnknown = "MCO leaves out of blockedRegistries what would block the release image, and no ClusterVersion was read that says which it is"

// MaySpare reports whether there are differences, and each of them may be intended.
func MaySpare(set mirrors.Set, differences []rollout.RegistryChange) bool {
	return len(differences) > 0 && !slices.ContainsFunc(differences, func(d rollout.RegistryChange) bool {
		return !set.MayBeSpared(mirrors.Difference{File: d.File, Scope: d.Scope, Objects: d.After, MachineConfig: d.Before})
	})
}

// PullDifferences compares a rendered config of a pool with what the objects ask for.
func PullDifferences(set mirrors.Set, pool string, config *rollout.Rendered) ([]rollout.RegistryChange, error) {
	wanted, err := mirrors.Rendered(set.At(pool))
	if err != nil {
		return nil, err
	}
	all, err := rollout.PullDifferences(config.Files, wanted)
	if err != nil {
		return nil, fmt.Errorf("MachineConfig %s: %w", config.Name, err)
	}
	return all, nil
}
