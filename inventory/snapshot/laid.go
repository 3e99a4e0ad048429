package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/objects"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
)

// A dump may lack MachineConfigs that lay files beside those that MCO generates, and have what MCO
// rendered of them: must-gathers are cut, and people list what they think of.

// putLaid adds the drop-ins that rendered configs have, and no MachineConfig of the dump: those of its pools and, for pools that it
// lacks, those that nodes are to have.
func (r *reader) putLaid() {
	pools := objects.All[*mcfgv1.MachineConfigPool](&r.kept)
	for _, pool := range pools {
		config := r.renderedOf(pool)
		if config == nil {
			r.noMachineConfig = append(r.noMachineConfig, r.lackingOf(pool)...)
			continue
		}
		r.lay(pool.Name, config)
	}
	for _, n := range r.Nodes() {
		report := rollout.ReportOf(n)
		name := cmp.Or(report.Desired, report.Current)
		pool := strings.TrimPrefix(name, objects.RenderedPrefix)
		pool = pool[:max(0, strings.LastIndexByte(pool, '-'))]
		has := slices.ContainsFunc(pools, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == pool })
		if config := r.contents[name].config; pool != "" && config != nil && !has {
			r.lay(pool, config)
		}
	}
	slices.Sort(r.noMachineConfig)
	r.noMachineConfig = slices.Compact(r.noMachineConfig)
	if note := r.lackingNote(); note != "" && !r.written {
		r.gaps = append(r.gaps, policy.Gap{Source: "machineconfigs", Kind: policy.MachineConfigKind, Detail: note, Unread: true, Remedy: policy.ReadMachineConfigs})
	}
}

// putNodes notes that a dump has no node, though every cluster has some.
func (r *reader) putNodes() {
	if len(r.Nodes()) == 0 && !r.written {
		r.gaps = append(r.gaps, policy.Gap{
			Source: "nodes", Kind: policy.NodeKind, Detail: "the dump has none", Unread: true, Excused: true,
			Remedy: "add the nodes to the dump (oc get nodes -o yaml), then try again",
		})
	}
}

// lay adds the drop-ins of a rendered config that nothing lays on the nodes of its pool yet.
func (r *reader) lay(pool string, config *rollout.Rendered) {
	for _, file := range slices.Sorted(maps.Keys(config.Files)) {
		if clean := path.Clean(file); mirrors.IsDropIn(clean) && !r.isLaid(pool, clean) {
			r.set.Files = append(r.set.Files, mirrors.File{MachineConfig: config.Name, Role: pool, Path: clean, Contents: config.Files[file]})
		}
	}
}

// renderedOf returns the newest rendered config of a pool that the dump has, nil for none.
func (r *reader) renderedOf(pool *mcfgv1.MachineConfigPool) *rollout.Rendered {
	for _, name := range []string{pool.Spec.Configuration.Name, pool.Status.Configuration.Name} {
		if config := r.contents[name].config; config != nil {
			return config
		}
	}
	return nil
}

// isLaid reports whether a MachineConfig of the dump lays a file on the nodes of a pool.
func (r *reader) isLaid(pool, file string) bool {
	return slices.ContainsFunc(r.set.Files, func(f mirrors.File) bool {
		return f.Path == file && (f.Role == pool || f.Role == workerRole && pool != masterRole)
	})
}

// The roles of MachineConfigs: all but masters have those of workers, too.
const (
	workerRole = "worker"
	masterRole = "master"
)

// lackingOf returns the names of MachineConfigs that a pool is rendered from and the dump lacks, but for
// those that come with MCO.
func (r *reader) lackingOf(pool *mcfgv1.MachineConfigPool) []string {
	var names []string
	for _, source := range pool.Spec.Configuration.Source {
		name := source.Name
		if !r.machineConfigs[name] && !strings.HasPrefix(name, "00-") && !strings.HasPrefix(name, "01-") && !strings.Contains(name, "-generated-") && !strings.HasSuffix(name, "-ssh") {
			names = append(names, name)
		}
	}
	return names
}

// namedConfigs is how many MachineConfigs a note names.
const namedConfigs = 3

func (s *Snapshot) lackingNote() string {
	if len(s.noMachineConfig) == 0 {
		return ""
	}
	return fmt.Sprintf("the dump lacks %s from which pools are rendered (%s): whether nodes have registries.conf files of their own is not known",
		text.Count(len(s.noMachineConfig), "MachineConfig"), text.Names(s.noMachineConfig, namedConfigs))
}
