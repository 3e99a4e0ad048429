package mirrors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

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
	var search sysregistriesv2.V2RegistriesConf
	if _, err := toml.Decode(string(files[SearchDropInPath]), &search); err != nil {
		return nil, fmt.Errorf("%s: %w", SearchDropInPath, err)
	}
	if search.UnqualifiedSearchRegistries != nil {
		conf.UnqualifiedSearchRegistries = search.UnqualifiedSearchRegistries
	}
	s.Registries.ContainerRuntimeSearchRegistries = search.UnqualifiedSearchRegistries // and not what the objects say by now
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
