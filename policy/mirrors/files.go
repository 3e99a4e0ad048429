package mirrors

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// The pools that every cluster has. All others take the files of worker, and their own.
const (
	masterPool = "master"
	workerPool = "worker"
)

// GeneratedRegistries is the MachineConfig that MCO makes of a Set for the pool worker
// (pkg/controller/container-runtime-config/helpers.go). All pools get the same files.
const GeneratedRegistries = "99-worker-generated-registries"

// The files in it that say where nodes pull from; what they require is in package policyfile.
const (
	RegistriesConfPath = "/etc/containers/registries.conf"
	SearchDropInPath   = "/etc/containers/registries.conf.d/01-image-searchRegistries.conf"
)

// A Variant is the configuration that the nodes of some pools get of a Set.
type Variant struct {
	// Pools are their names, sorted; none where all nodes get the same.
	Pools []string
	// Set is that of all, with Pool set to one of them.
	Set Set
}

// Variants returns what different nodes get of s: MachineConfigs can put different files on
// the nodes of different roles. Nodes of a pool that Files does not name get the same as those
// of worker, which is always in the first Variant.
//
// Nodes that get the same of s, but not of all others, are also distinguished: a change may bring the first file for a pool, and the
// file that MCO generates hides a MachineConfig's file at the same path, which shows again once the last
// object is deleted.
func (s Set) Variants(others ...Set) []Variant {
	pools, all := []string{workerPool, masterPool}, append([]Set{s}, others...)
	for _, of := range all {
		for _, f := range of.Files {
			if !slices.Contains(pools, f.Role) {
				pools = append(pools, f.Role)
			}
		}
	}
	slices.Sort(pools[2:])
	var variants []Variant
	for _, pool := range pools {
		same := slices.IndexFunc(variants, func(v Variant) bool {
			return !slices.ContainsFunc(all, func(of Set) bool {
				return !slices.EqualFunc(of.filesOf(v.Set.Pool), of.filesOf(pool), sameFile)
			})
		})
		if same < 0 {
			of := s
			of.Pool = pool
			variants = append(variants, Variant{[]string{pool}, of})
			continue
		}
		variants[same].Pools = append(variants[same].Pools, pool)
		slices.Sort(variants[same].Pools)
	}
	if len(variants) == 1 {
		variants[0].Pools = nil
	}
	return variants
}

// At returns s as the nodes of a pool get it.
func (s Set) At(pool string) Set {
	s.Pool = pool
	return s
}

func sameFile(a, b File) bool { return a.Path == b.Path && slices.Equal(a.Contents, b.Contents) }

// IsRegistriesFile reports whether the container runtime reads the file at path for where
// to pull from (dropInConfigs in containers/image, pkg/sysregistriesv2).
func IsRegistriesFile(file string) bool {
	return file == RegistriesConfPath || path.Dir(file) == path.Dir(SearchDropInPath) && path.Ext(file) == ".conf"
}

// IsAppliedFile reports whether an Applied holds the file at path.
func IsAppliedFile(file string) bool { return IsRegistriesFile(file) || policyfile.IsPolicyFile(file) }

// IsDropIn reports whether the container runtime reads the file at path after registries.conf, and
// MCO does not generate it.
func IsDropIn(file string) bool {
	return IsRegistriesFile(file) && file != RegistriesConfPath && file != SearchDropInPath
}

// filesOf returns the files on the nodes of a pool that MCO does not generate, in the order
// in which they are read: registries.conf, then all others by name. Where several have one path, that
// of the last MachineConfig by name counts, the generated one included (MergeMachineConfigs in MCO's
// pkg/controller/common/helpers.go).
func (s Set) filesOf(pool string) []File {
	generated := "99-" + workerPool + "-generated-registries"
	if pool == masterPool {
		generated = "99-" + masterPool + "-generated-registries"
	}
	byPath := map[string]File{}
	for _, f := range slices.SortedStableFunc(slices.Values(s.Files), func(a, b File) int { return strings.Compare(a.MachineConfig, b.MachineConfig) }) {
		laid := f.Role == pool || f.Role == workerPool && pool != masterPool
		if laid && IsAppliedFile(f.Path) && (!s.generates(f.Path) || f.MachineConfig >= generated) {
			byPath[f.Path] = f
		}
	}
	return slices.SortedFunc(maps.Values(byPath), func(a, b File) int {
		return cmp.Or(cmp.Compare(rank(a.Path), rank(b.Path)), strings.Compare(a.Path, b.Path))
	})
}

func rank(file string) int {
	if file == RegistriesConfPath {
		return 0
	}
	return 1
}

// generates reports whether MCO writes the file at path for s.
func (s Set) generates(file string) bool {
	r := s.Registries
	switch file {
	case RegistriesConfPath:
		return len(s.Objects)+len(r.InsecureRegistries)+len(r.BlockedRegistries) > 0
	case SearchDropInPath:
		return len(r.ContainerRuntimeSearchRegistries) > 0
	case policyfile.PolicyJSONPath:
		lists := newPolicyLists(s, s.blockedRegistries())
		return len(s.Policies)+len(lists.allowed)+len(lists.blocked) > 0
	case policyfile.AttachmentsPath:
		return len(s.Policies) > 0
	default:
		namespace, _ := policyfile.Namespace(file)
		return slices.ContainsFunc(s.Policies, func(o Object) bool { return namespace != "" && o.GetNamespace() == namespace })
	}
}

// makers are the MachineConfigs that entries come from, by scope.
type makers map[string]string

// withFiles returns what the nodes of s.Pool make of conf, the normalised file that MCO
// generates, and of their other files: a drop-in replaces entries of the same scope, and
// the list of search registries if it has one (updateWithConfigurationFrom in
// containers/image, pkg/sysregistriesv2). A file that no node can read ends every pull
// there, before and after any change of mirrors; it is left out.
func (s Set) withFiles(conf sysregistriesv2.V2RegistriesConf) (sysregistriesv2.V2RegistriesConf, makers) {
	made := makers{}
	files := s.filesOf(cmp.Or(s.Pool, workerPool))
	if !slices.ContainsFunc(files, func(f File) bool { return IsRegistriesFile(f.Path) }) {
		return conf, made
	}
	search := s.Registries.ContainerRuntimeSearchRegistries
	merged := map[string]sysregistriesv2.Registry{}
	for _, r := range conf.Registries {
		merged[r.Prefix] = r
	}
	for _, f := range files {
		if !IsRegistriesFile(f.Path) {
			continue
		}
		own, err := parseFile(f.Contents)
		if err != nil {
			continue
		}
		if f.Path == RegistriesConfPath { // instead of the generated one
			clear(merged)
			conf.UnqualifiedSearchRegistries = own.UnqualifiedSearchRegistries
		}
		if own.UnqualifiedSearchRegistries != nil {
			conf.UnqualifiedSearchRegistries = own.UnqualifiedSearchRegistries
		}
		if len(search) > 0 && f.Path < SearchDropInPath { // which is read after it
			conf.UnqualifiedSearchRegistries = slices.Clone(search)
		}
		for _, r := range own.Registries {
			merged[r.Prefix], made[r.Prefix] = r, f.MachineConfig
		}
	}
	conf.Registries = slices.SortedFunc(maps.Values(merged), func(a, b sysregistriesv2.Registry) int { return strings.Compare(a.Prefix, b.Prefix) })
	return conf, made
}

// withPolicyFiles returns t as the nodes of s.Pool read it from files, which MCO has generated, and
// from those that MachineConfigs lay beside and over them.
func (s Set) withPolicyFiles(t *policyfile.Policy, files map[string][]byte) *policyfile.Policy {
	t.Lay(files, func(yield func(string, []byte) bool) {
		for _, f := range s.filesOf(cmp.Or(s.Pool, workerPool)) {
			if !yield(f.Path, f.Contents) {
				return
			}
		}
	})
	return t
}

// Unreadable returns why nodes could not read f, which would end every pull there; nil if they can.
func (f File) Unreadable() error {
	if IsRegistriesFile(f.Path) {
		_, err := parseFile(f.Contents)
		return err
	}
	return policyfile.Check(f.Path, f.Contents)
}

func parseFile(text []byte) (conf sysregistriesv2.V2RegistriesConf, err error) {
	if _, err = toml.Decode(string(text), &conf); err != nil {
		return conf, err
	}
	return conf, normalize(&conf)
}
