package status

import (
	"fmt"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
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
	return fmt.Sprintf("MachineConfigPool %s is to get %s, which is not what mirror objects and MachineConfigs ask for: %s", d.Pool, d.Config, differenceText(d.Entries))
}

// TargetDifferences compares what pools are to get with what set asks for, where both are known. A set
// that MCO rejects has none, as MCO renders nothing.
func TargetDifferences(in Input, set mirrors.Set) []TargetDifference {
	if _, err := mirrors.Resolve(set); err != nil {
		return nil
	}
	var all []TargetDifference
	for _, p := range in.Cluster.Pools {
		target := p.Spec.Configuration.Name
		config := in.Rendered[target]
		if config == nil || p.DeletionTimestamp != nil || !takesMirrors(in.Cluster, p.Name) {
			continue
		}
		entries, err := pullDifferences(set, p.Name, config)
		if err == nil && len(entries) > 0 && !maySpare(set, entries) {
			all = append(all, TargetDifference{p.Name, target, entries})
		}
	}
	return all
}
