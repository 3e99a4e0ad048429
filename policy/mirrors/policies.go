package mirrors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/opencontainers/go-digest"
	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// OwnPolicies returns the namespaces, sorted, whose pods may pull an image under another
// signature policy than others; none in most clusters.
func (t *Table) OwnPolicies() []string { return t.trust.OwnNamespaces() }

// DiffersIn reports whether pods of a namespace may pull image under another signature policy
// than those of namespaces without one of their own.
func (t *Table) DiffersIn(namespace, image string) bool {
	if t.trust.In(namespace) == t.trust.In("") {
		return false
	}
	name, _ := Repository(image)
	return t.trust.DiffersIn(namespace, name)
}

// attachedScopes returns the scopes that MCO writes to AttachmentsPath: those of the policies
// and, by the generated registries.conf, the mirrors of these and of the entries inside them
// (generateSigstoreRegistriesdConfig).
func (s Set) attachedScopes(conf sysregistriesv2.V2RegistriesConf) map[string]bool {
	scopes := map[string]bool{}
	if len(s.Policies) == 0 {
		return scopes
	}
	index := newIndex(conf.Registries)
	for _, u := range s.attachedPolicies() {
		scopes[u.scope] = true
		u.eachEntry(conf, func(scope string) {
			if r := index.find(scope); r != nil {
				endpoints, _ := endpointsOf(r, scope) // unroutableScopes reports the error
				for _, endpoint := range endpoints {
					scopes[endpoint] = true
				}
			}
		})
	}
	return scopes
}

// attachedPolicies returns the scopes of policies, but for those that MCO skips.
func (s Set) attachedPolicies() []scopeUse {
	cluster, namespaced := s.scopes()
	namespaced = slices.DeleteFunc(namespaced, func(u scopeUse) bool { return u.isSkipped(cluster, nil) })
	return slices.Concat(cluster, namespaced)
}

// eachEntry calls f for the scope of u and for the entries of registries.conf inside it.
func (u scopeUse) eachEntry(conf sysregistriesv2.V2RegistriesConf, f func(scope string)) {
	f(u.scope)
	for i := range conf.Registries {
		if scope := conf.Registries[i].Prefix; scope != u.scope && registries.ScopeIsNestedInsideScope(scope, u.scope) {
			f(scope)
		}
	}
}

// endpointsOf returns the names of the places that r, the entry over scope, sends it to, as MCO
// makes them (addScopeMirrorsSigstoreRegistriesdConfig): by a digest and by a tag of the scope,
// below it if it is a host. The error says why a mirror's name cannot be made of it, for which
// MCO writes nothing at all.
func endpointsOf(r *sysregistriesv2.Registry, scope string) ([]string, error) {
	const below = "/a"
	if strings.HasPrefix(scope, "*.") {
		scope = "matched" + scope[1:]
	}
	isHost := !strings.Contains(scope, "/")
	if isHost {
		scope += below
	}
	parsed, err := reference.Parse(scope)
	if err != nil {
		return nil, err
	}
	named, ok := parsed.(reference.Named)
	if !ok {
		return nil, fmt.Errorf("%q is not a repository", scope)
	}
	named = reference.TrimNamed(named)
	digested, err := reference.WithDigest(named, digest.Digest("sha256:"+strings.Repeat("a", 64)))
	if err != nil {
		return nil, err
	}
	tagged, err := reference.WithTag(named, "aaa")
	if err != nil {
		return nil, err
	}
	var endpoints []string
	for _, ref := range []reference.Named{digested, tagged} {
		pulls, err := r.PullSourcesFromReference(ref)
		if err != nil {
			return nil, explainRewrite(r, ref, err)
		}
		for _, p := range pulls {
			if p.Endpoint.Location == "" { // the source of an entry with a wildcard
				continue
			}
			endpoint := p.Reference.Name()
			if isHost {
				endpoint = strings.TrimSuffix(endpoint, below)
			}
			endpoints = append(endpoints, endpoint)
		}
	}
	return endpoints, nil
}

// Files returns what MCO makes of lists and policies (getValidScopePolicies). The reasons say for what it would write
// nothing.
func (s Set) policyFiles(lists policyLists) (policyfile.Files, []Reason) {
	from := policyfile.Sources{Allowed: lists.allowed, Blocked: lists.blocked, Makers: policyfile.Makers{}, Refused: s.whyRefused(lists)}
	var reasons []Reason
	from.Wanted, reasons = s.requirements(from.Makers)
	return policyfile.New(from, len(lists.allowed)+len(lists.blocked)+len(s.Policies) > 0), append(reasons, s.bothLists(lists)...)
}

// requirements returns what image policies require, by namespace, "" for the cluster, and scope. A scope inside one of the
// cluster's is skipped in namespaces.
func (s Set) requirements(makers policyfile.Makers) (wanted map[string]map[string][]signing.Requirement, reasons []Reason) {
	wanted = map[string]map[string][]signing.Requirement{}
	// By name, all of the cluster's come before those of namespaces.
	for _, o := range slices.SortedFunc(slices.Values(s.Policies), func(a, b Object) int { return strings.Compare(NameOf(a), NameOf(b)) }) {
		namespace, scopes, spec := policyOf(o)
		requirement, err := signing.FromSpec(spec)
		if err != nil {
			reasons = append(reasons, newReason(PolicyInvalid, NameOf(o), fmt.Sprintf("%s is not valid: %v", NameOf(o), err), NameOf(o)))
			continue
		}
		for _, scope := range scopes {
			if namespace != "" && isInside(scope, wanted[""]) {
				continue
			}
			if wanted[namespace] == nil {
				wanted[namespace], makers[namespace] = map[string][]signing.Requirement{}, map[string][]string{}
			}
			wanted[namespace][scope] = append(wanted[namespace][scope], requirement)
			makers[namespace][scope] = append(makers[namespace][scope], NameOf(o))
		}
	}
	return wanted, reasons
}

func isInside(scope string, scopes map[string][]signing.Requirement) bool {
	for wider := range scopes {
		if registries.ScopeIsNestedInsideScope(scope, wider) {
			return true
		}
	}
	return false
}

// whyRefused says why images are refused that neither list names; "" if they are not.
func (s Set) whyRefused(lists policyLists) string {
	switch {
	case len(lists.allowed) == 0 || len(lists.blocked) > 0: // the list that is written last sets the default
		return ""
	case len(s.Registries.AllowedRegistries) > 0:
		return "allowedRegistries of Image cluster does not name its registry"
	default:
		return "blockedRegistries of Image cluster names the release payload's repository alone, which makes nodes accept nothing else"
	}
}

// bothLists is the reason for which MCO rejects having both lists, unless the repository of
// the payload is all that is allowed.
func (s Set) bothLists(lists policyLists) []Reason {
	onlyPayload := len(lists.allowed) == 1 && lists.allowed[0] == payloadRepository(s.Payload)
	if len(lists.allowed) == 0 || len(lists.blocked) == 0 || onlyPayload {
		return nil
	}
	return []Reason{newReason(BothLists, "", "allowedRegistries and blockedRegistries of Image cluster are both set", imageCluster)}
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

// PolicyDifferences compares what mirror objects and what the files that nodes were given say
// of images that may run: policy.json, those of namespaces with an ImagePolicy, and
// registries.d. They are sorted by file and scope.
func PolicyDifferences(objects, machineConfig *Table) []Difference {
	all := convert.Each(policyfile.Differences(objects.trust, machineConfig.trust), func(d policyfile.Difference) Difference { return Difference(d) })
	slices.SortStableFunc(all, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Scope, b.Scope))
	})
	return all
}
