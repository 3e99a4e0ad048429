package mirrors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// GeneratedRegistries is the MachineConfig that MCO makes of a Set for the pool worker
// (pkg/controller/container-runtime-config/helpers.go). All pools get the same files.
const GeneratedRegistries = "99-worker-generated-registries"

// The files in it that say where nodes pull from; what they require is in package policyfile.
const (
	RegistriesConfPath = "/etc/containers/registries.conf"
	SearchDropInPath   = "/etc/containers/registries.conf.d/01-image-searchRegistries.conf"
)

// Applied holds what MCO last wrote for the nodes.
type Applied struct {
	// Files are the files that say where nodes pull from and what they require of images, by
	// path. Where one is missing or empty, that which comes with the system counts.
	Files map[string][]byte
}

// IsAppliedFile reports whether an Applied holds the file at path.
func IsAppliedFile(file string) bool { return IsRegistriesFile(file) || policyfile.IsPolicyFile(file) }

// ResolveApplied computes the routes of nodes that have the files of s.Applied, and s.Files
// beside them. The error says which of the former cannot be read, by nodes either, or that
// there is no s.Applied.
func ResolveApplied(s Set) (*Table, error) {
	if s.Applied == nil {
		return nil, errors.New("the files that MCO last wrote were not read")
	}
	files := s.Applied.Files
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: slices.Clone(defaultSearch)}
	if _, err := toml.Decode(string(files[RegistriesConfPath]), &conf); err != nil {
		return nil, fmt.Errorf("%s: %w", RegistriesConfPath, err)
	}
	// The runtime reads the drop-in last.
	search := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: conf.UnqualifiedSearchRegistries}
	if _, err := toml.Decode(string(files[SearchDropInPath]), &search); err != nil {
		return nil, fmt.Errorf("%s: %w", SearchDropInPath, err)
	}
	conf.UnqualifiedSearchRegistries = search.UnqualifiedSearchRegistries
	if err := normalize(&conf); err != nil {
		return nil, fmt.Errorf("%s: %w", RegistriesConfPath, err)
	}
	for file, contents := range files {
		if err := policyfile.Check(file, contents); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	conf, made := s.withFiles(conf)
	return &Table{conf: conf, index: newIndex(conf.Registries), trust: s.withPolicyFiles(policyfile.NewPolicy(), files), makers: made}, nil
}
