package mirrors

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// GeneratedRegistries is the MachineConfig that MCO makes of a Set for the pool worker
// (pkg/controller/container-runtime-config/helpers.go). All pools get the same files.
const GeneratedRegistries = "99-worker-generated-registries"

// The files in it that say where nodes pull from.
const (
	RegistriesConfPath = "/etc/containers/registries.conf"
	SearchDropInPath   = "/etc/containers/registries.conf.d/01-image-searchRegistries.conf"
	PolicyJSONPath     = "/etc/containers/policy.json"
)

// Applied holds the files that MCO last wrote for the nodes. A file is empty if MCO wrote
// none; then the one that comes with the system counts.
type Applied struct {
	// RegistriesConf is the file at RegistriesConfPath, SearchDropIn that at
	// SearchDropInPath, PolicyJSON that at PolicyJSONPath.
	RegistriesConf, SearchDropIn, PolicyJSON []byte
}

// ResolveApplied computes the routes of nodes that have the files of s.Applied, and s.Files
// beside them. The error says which of the former cannot be read, by nodes either, or that
// there is no s.Applied.
func ResolveApplied(s Set) (*Table, error) {
	if s.Applied == nil {
		return nil, errors.New("the files that MCO last wrote were not read")
	}
	a := *s.Applied
	conf := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: slices.Clone(defaultSearch)}
	if _, err := toml.Decode(string(a.RegistriesConf), &conf); err != nil {
		return nil, fmt.Errorf("%s: %w", RegistriesConfPath, err)
	}
	// The runtime reads the drop-in last.
	search := sysregistriesv2.V2RegistriesConf{UnqualifiedSearchRegistries: conf.UnqualifiedSearchRegistries}
	if _, err := toml.Decode(string(a.SearchDropIn), &search); err != nil {
		return nil, fmt.Errorf("%s: %w", SearchDropInPath, err)
	}
	conf.UnqualifiedSearchRegistries = search.UnqualifiedSearchRegistries
	if err := normalize(&conf); err != nil {
		return nil, fmt.Errorf("%s: %w", RegistriesConfPath, err)
	}
	policy, err := appliedPolicy(a.PolicyJSON)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", PolicyJSONPath, err)
	}
	conf, made := s.withFiles(conf)
	return &Table{conf: conf, index: newIndex(conf.Registries), policy: policy, makers: made}, nil
}

// A policyJSON is the part of policy.json that decides by name (containers/image,
// signature.Policy).
type policyJSON struct {
	Default    []policyRequirement                       `json:"default"`
	Transports map[string]map[string][]policyRequirement `json:"transports"`
}

type policyRequirement struct {
	Type string `json:"type"`
}

// appliedPolicy reads as much of policy.json as a signaturePolicy holds: what is rejected
// by name. What asks for signatures counts as accepted, here as there.
func appliedPolicy(data []byte) (signaturePolicy, error) {
	if len(data) == 0 {
		return signaturePolicy{}, nil
	}
	var file policyJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return signaturePolicy{}, err
	}
	p := signaturePolicy{allowed: map[string]bool{}, blocked: map[string]bool{}}
	docker := file.Transports["docker"]
	for scope, requirements := range docker {
		switch {
		case scope == "": // the default of the transport
		case rejects(requirements):
			p.blocked[scope] = true
		default:
			p.allowed[scope] = true
		}
	}
	rest, ok := docker[""]
	if !ok {
		rest = file.Default
	}
	if rejects(rest) {
		p.rest = "the policy.json that nodes have does not name its registry"
	}
	return p, nil
}

// rejects reports whether a requirement is never met: all have to be.
func rejects(requirements []policyRequirement) bool {
	return slices.ContainsFunc(requirements, func(r policyRequirement) bool { return r.Type == "reject" })
}
