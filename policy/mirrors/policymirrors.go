package mirrors

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/opencontainers/go-digest"
	"github.com/openshift/runtime-utils/pkg/registries"
)

// unroutableScopes restates how MCO looks for the mirrors of image policies, to have
// signatures attached to images there looked up as well (generateSigstoreRegistriesdConfig in
// its container-runtime-config controller): it rewrites each scope of a policy, and each
// entry of registries.conf inside it, by the mirrors of the entry that covers it. Where that
// does not make a reference, MCO writes nothing at all: where the mirror's host is a single
// word (pulls fail then too, see Route.Err), where a policy names a host with a port and the
// mirrors are those of the host without it, and where an entry covers docker.io/NAME, which is
// read as docker.io/library/NAME.
//
// Conf is the generated file, normalized.
func unroutableScopes(s Set, conf sysregistriesv2.V2RegistriesConf) []Reason {
	if len(s.Policies) == 0 {
		return nil
	}
	index := newIndex(conf.Registries)
	policies, errs := map[string][]string{}, map[string]error{}
	for _, u := range s.attachedPolicies() {
		u.eachEntry(conf, func(scope string) {
			if r := index.find(scope); r != nil {
				if _, err := endpointsOf(r, scope); err != nil {
					policies[scope], errs[scope] = append(policies[scope], NameOf(u.policy)), err
				}
			}
		})
	}
	var reasons []Reason
	for scope, names := range policies {
		slices.Sort(names)
		names = slices.Compact(names)
		offenders := slices.Concat(names, s.makersOf(index.find(scope).Prefix))
		reasons = append(reasons, newReason(PolicyMirrors, scope, fmt.Sprintf(
			"MCO cannot work out which mirrors of %q %s applies to: %v", scope, enumerate(names), errs[scope]), offenders...))
	}
	return reasons
}

// makersOf returns the names of the objects that have a part in the generated entry of scope:
// mirror objects with a source that is scope or covers it, and Image cluster if its lists
// name scope.
func (s Set) makersOf(scope string) []string {
	var names []string
	for _, listed := range slices.Concat(s.Registries.InsecureRegistries, s.Registries.BlockedRegistries) {
		if listed == scope {
			names = append(names, imageCluster)
		}
	}
	for _, e := range s.Entries() {
		if e.HasMirror() && (e.Source == scope || registries.ScopeIsNestedInsideScope(scope, e.Source)) {
			names = append(names, NameOf(e.Object))
		}
	}
	return names
}

// explainRewrite says why ref cannot be rewritten, which failed with err, and what would help.
func explainRewrite(r *sysregistriesv2.Registry, ref reference.Named, err error) error {
	canonical, notHub := reference.ParseNormalizedNamed(ref.Name())
	switch why := culprit(r, ref, err); {
	case notHub == nil && canonical.Name() != ref.Name(): // docker.io/team
		return fmt.Errorf("%s is read as %s; name its repositories one by one, as %s/NAME, in the policy and in mirror sets", ref.Name(), canonical.Name(), ref.Name())
	case why == err: //nolint:errorlint // whether culprit found one
		return why
	case strings.HasPrefix(ref.Name(), r.Prefix+":"): // quay.io:443/team by the entry of quay.io
		return fmt.Errorf("%w; write the port of the registry in policy and source alike", why)
	default:
		return fmt.Errorf("%w; write the mirror's host with a dot or a port", why)
	}
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
