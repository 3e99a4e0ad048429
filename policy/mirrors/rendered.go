package mirrors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/runtime-utils/pkg/registries"
)

// The files that nodes have where MCO generates none, byte by byte
// (templates/worker/01-worker-container-runtime/_base/files in MCO; those of other roles
// are the same).
const (
	baseRegistriesConf = "unqualified-search-registries = ['registry.access.redhat.com', 'docker.io']\n"
	basePolicyJSON     = `{
    "default": [
        {
            "type": "insecureAcceptAnything"
        }
    ],
    "transports":
        {
            "docker-daemon":
                {
                    "": [{"type":"insecureAcceptAnything"}]
                }
        }
}`
)

// Rendered returns the files of the rendered config for the nodes of s.Pool that s decides
// on, by path, as MCO writes them (registriesConfigIgnition in its container-runtime-config
// controller). Two Sets that differ in them are a rollout, even where no route differs: an
// entry that comes to nothing makes MCO rewrite its base file in another format.
//
// To be compared with what Rendered returns for another Set, not with files from a cluster:
// the version of the libraries decides which empty settings are written out.
//
// s must be one that Resolve accepts. Two things are not MCO's to the byte: what image
// policies demand is in the words of their API, and the file in registries.d that turns
// attached signatures on for their scopes is left out. Both differ only together with what
// is there.
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
	s.renderPolicies(files, newPolicyLists(s, blocked))
	s.layOver(files)
	return files, nil
}

// RenderedApplied is Rendered for nodes that have the files of s.Applied, which must not be
// nil, and s.Files beside them.
func RenderedApplied(s Set) map[string][]byte {
	files := baseFiles()
	for path, contents := range map[string][]byte{
		RegistriesConfPath: s.Applied.RegistriesConf, SearchDropInPath: s.Applied.SearchDropIn, PolicyJSONPath: s.Applied.PolicyJSON,
	} {
		if len(contents) > 0 {
			files[path] = contents
		}
	}
	s.layOver(files)
	return files
}

func baseFiles() map[string][]byte {
	return map[string][]byte{RegistriesConfPath: []byte(baseRegistriesConf), PolicyJSONPath: []byte(basePolicyJSON)}
}

// layOver puts what other MachineConfigs bring to the pool beside the files and over them.
func (s Set) layOver(files map[string][]byte) {
	for _, f := range s.filesOf(cmp.Or(s.Pool, workerPool)) {
		files[f.Path] = f.Contents
	}
}

func encodeConf(conf sysregistriesv2.V2RegistriesConf) []byte {
	var b bytes.Buffer
	_ = toml.NewEncoder(&b).Encode(conf) // the type has nothing that cannot be encoded
	return b.Bytes()
}

// demands are what policy.json asks of images, by transport and scope.
type demands struct {
	Default    []any                       `json:"default"`
	Transports map[string]map[string][]any `json:"transports"`
}

// A demand without conditions.
type plainDemand struct {
	Type string `json:"type"`
}

// renderPolicies writes policy.json, and one for each namespace with an ImagePolicy
// (updatePolicyJSON, updateNamespacedPolicyJSONs).
func (s Set) renderPolicies(files map[string][]byte, lists policyLists) {
	ofCluster, ofNamespaces := s.policyDemands()
	scopes := map[string][]any{}
	accept, reject := any(plainDemand{"insecureAcceptAnything"}), any(plainDemand{"reject"})
	rest := accept
	for _, scope := range lists.allowed {
		rest = reject
		if len(ofCluster[scope]) == 0 { // a policy says what is allowed there
			scopes[scope] = []any{accept}
		}
	}
	for _, scope := range lists.blocked {
		rest = accept
		scopes[scope] = []any{reject}
	}
	for scope, wanted := range ofCluster {
		scopes[scope] = append(scopes[scope], wanted...)
	}
	if len(lists.allowed)+len(lists.blocked)+len(ofCluster) > 0 {
		files[PolicyJSONPath] = encodeDemands(rest, accept, scopes)
	}
	for namespace, wanted := range ofNamespaces {
		merged := map[string][]any{}
		for scope, demanded := range scopes {
			merged[scope] = slices.Clone(demanded)
		}
		for scope, demanded := range wanted {
			merged[scope] = append(merged[scope], demanded...)
		}
		files["/etc/crio/policies/"+namespace+".json"] = encodeDemands(rest, accept, merged)
	}
}

func encodeDemands(rest, accept any, scopes map[string][]any) []byte {
	d := demands{Default: []any{rest}, Transports: map[string]map[string][]any{"docker-daemon": {"": {accept}}}}
	if len(scopes) > 0 { // MCO leaves the transports out where there are none
		atomic := map[string][]any{}
		for scope, wanted := range scopes {
			if strings.Count(scope, "/") < 3 { // which is all that transport atomic knows
				atomic[scope] = wanted
			}
		}
		d.Transports["docker"], d.Transports["atomic"] = scopes, atomic
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil // there is nothing in it that JSON does not know
	}
	return data
}

// policyDemands returns what image policies demand, by scope, and for namespaces by
// namespace and scope (getValidScopePolicies): a scope inside one of the cluster's is
// skipped there.
func (s Set) policyDemands() (ofCluster map[string][]any, ofNamespaces map[string]map[string][]any) {
	ofCluster, ofNamespaces = map[string][]any{}, map[string]map[string][]any{}
	policies := slices.SortedFunc(slices.Values(s.Policies), func(a, b Object) int { return strings.Compare(NameOf(a), NameOf(b)) })
	for _, o := range policies {
		if o, ok := o.(*configv1.ClusterImagePolicy); ok {
			for _, scope := range o.Spec.Scopes {
				ofCluster[string(scope)] = append(ofCluster[string(scope)], o.Spec.Policy)
			}
		}
	}
	for _, o := range policies {
		o, ok := o.(*configv1.ImagePolicy)
		if !ok {
			continue
		}
		for _, scope := range o.Spec.Scopes {
			if isInside(string(scope), ofCluster) {
				continue
			}
			if ofNamespaces[o.Namespace] == nil {
				ofNamespaces[o.Namespace] = map[string][]any{}
			}
			ofNamespaces[o.Namespace][string(scope)] = append(ofNamespaces[o.Namespace][string(scope)], o.Spec.Policy)
		}
	}
	return ofCluster, ofNamespaces
}

func isInside(scope string, scopes map[string][]any) bool {
	for wider := range scopes {
		if registries.ScopeIsNestedInsideScope(scope, wider) {
			return true
		}
	}
	return false
}
