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
// word, or where a policy names a host with a port and the mirrors are those of the host
// without it. Pulls by such mirrors fail as well (Route.Err); but MCO is stuck.
//
// Conf is the generated file, normalized.
func unroutableScopes(s Set, conf sysregistriesv2.V2RegistriesConf) []Reason {
	if len(s.Policies) == 0 {
		return nil
	}
	index := newIndex(conf.Registries)
	policies, errs := map[string][]string{}, map[string]error{}
	look := func(scope string, u scopeUse) {
		if r := index.find(scope); r != nil {
			if err := rewriteScope(r, scope); err != nil {
				policies[scope], errs[scope] = append(policies[scope], NameOf(u.policy)), err
			}
		}
	}
	cluster, namespaced := s.scopes()
	namespaced = slices.DeleteFunc(namespaced, func(u scopeUse) bool { return u.isSkipped(cluster, nil) })
	for _, u := range slices.Concat(cluster, namespaced) {
		look(u.scope, u)
		for i := range conf.Registries {
			if scope := conf.Registries[i].Prefix; scope != u.scope && registries.ScopeIsNestedInsideScope(scope, u.scope) {
				look(scope, u)
			}
		}
	}
	var reasons []Reason
	for scope, names := range policies {
		slices.Sort(names)
		names = slices.Compact(names)
		offenders := slices.Concat(names, s.mirrorObjectsOver(index.find(scope).Prefix))
		reasons = append(reasons, newReason(PolicyMirrors, scope, fmt.Sprintf(
			"the mirrors of %q, to which %s applies, cannot be worked out: %v", scope, enumerate(names), errs[scope]), offenders...))
	}
	return reasons
}

// mirrorObjectsOver returns the names of the mirror objects with a source that is scope or
// covers it.
func (s Set) mirrorObjectsOver(scope string) []string {
	var names []string
	for _, e := range s.Entries() {
		if e.HasMirror() && (e.Source == scope || registries.ScopeIsNestedInsideScope(scope, e.Source)) {
			names = append(names, NameOf(e.Object))
		}
	}
	return names
}

// rewriteScope says why no mirror's name can be made of scope, as MCO makes one
// (addScopeMirrorsSigstoreRegistriesdConfig): by a tag and by a digest of it, below it if it
// is a host.
func rewriteScope(r *sysregistriesv2.Registry, scope string) error {
	if strings.HasPrefix(scope, "*.") {
		scope = "matched" + scope[1:]
	}
	if !strings.Contains(scope, "/") {
		scope += "/a"
	}
	parsed, err := reference.Parse(scope)
	if err != nil {
		return err
	}
	named, ok := parsed.(reference.Named)
	if !ok {
		return fmt.Errorf("%q is not a repository", scope)
	}
	named = reference.TrimNamed(named)
	digested, err := reference.WithDigest(named, digest.Digest("sha256:"+strings.Repeat("a", 64)))
	if err != nil {
		return err
	}
	tagged, err := reference.WithTag(named, "aaa")
	if err != nil {
		return err
	}
	for _, ref := range []reference.Named{digested, tagged} {
		if _, err := r.PullSourcesFromReference(ref); err != nil {
			return culprit(r, ref, err)
		}
	}
	return nil
}
