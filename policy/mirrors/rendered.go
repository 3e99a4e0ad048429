package mirrors

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/containers/image/v5/pkg/sysregistriesv2"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// The files that nodes have where MCO generates none, byte by byte
// (templates/worker/01-worker-container-runtime/_base/files in MCO; those of other roles
// are the same).
const baseRegistriesConf = "unqualified-search-registries = ['registry.access.redhat.com', 'docker.io']\n"

// Rendered returns the files of the rendered config for the nodes of s.Pool that s decides
// on, by path, as MCO writes them (registriesConfigIgnition in its container-runtime-config
// controller). Two Sets that differ in them are a rollout, even where no route differs: an
// entry that comes to nothing makes MCO rewrite its base file in another format.
//
// Compare them with those of another Set, not with files from a cluster: the version of the libraries
// decides which empty settings are written out.
//
// s must be one that Resolve accepts.
func Rendered(s Set) (map[string][]byte, error) {
	blocked := s.blockedRegistries()
	files := baseFiles()
	if s.Registries.InsecureRegistries != nil || len(blocked) > 0 || len(s.Objects) > 0 {
		base := s
		base.Registries.ContainerRuntimeSearchRegistries = nil // they go into the drop-in
		conf, err := generate(base, blocked)
		if err != nil {
			return nil, fmt.Errorf("generating %s: %w", RegistriesConfPath, err)
		}
		files[RegistriesConfPath] = encodeConf(conf)
	}
	if search := s.Registries.ContainerRuntimeSearchRegistries; search != nil {
		files[SearchDropInPath] = encodeConf(sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: search})
	}
	policies, _ := s.policyFiles(newPolicyLists(s, blocked))
	if len(s.Policies) > 0 {
		conf, err := generate(s, blocked)
		if err == nil {
			err = normalize(&conf)
		}
		if err != nil {
			return nil, fmt.Errorf("generating %s: %w", policyfile.AttachmentsPath, err)
		}
		policies.Attached = s.attachedScopes(conf)
	}
	maps.Copy(files, policies.ByPath())
	s.layOver(files)
	return files, nil
}

// RenderedApplied is Rendered for nodes that have the files of s.Applied, which must not be
// nil, and s.Files beside them.
func RenderedApplied(s Set) map[string][]byte {
	files := baseFiles()
	maps.Copy(files, s.Applied.Files)
	s.layOver(files)
	return files
}

func baseFiles() map[string][]byte {
	return map[string][]byte{RegistriesConfPath: []byte(baseRegistriesConf), policyfile.PolicyJSONPath: []byte(policyfile.BaseJSON)}
}

// layOver puts what other MachineConfigs bring to the pool beside the files and over them.
func (s Set) layOver(files map[string][]byte) {
	for _, f := range s.filesOf(cmp.Or(s.Pool, workerPool)) {
		files[f.Path] = f.Contents
	}
}
