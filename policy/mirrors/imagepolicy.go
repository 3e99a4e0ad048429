package mirrors

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// A scopeUse is a scope that an image policy names.
type scopeUse struct {
	policy Object
	scope  string
}

// conflictingScopes restates how MCO checks the scopes of image policies against the
// registry lists (validateImagePolicyWithAllowedBlockedRegistries in its
// container-runtime-config controller): none may be inside blockedRegistries, and if there
// are allowedRegistries, each must be inside them. The lists are those written to
// policy.json: a blocked registry that covers the release payload is among them only if the
// payload has a mirror.
//
// Scopes of an ImagePolicy inside one of a ClusterImagePolicy are skipped
// (getValidScopePolicies), except where that ClusterImagePolicy is itself in conflict: once
// it is deleted, MCO checks them, and the conflict would look like a new one.
func conflictingScopes(s Set, lists policyLists) []Reason {
	if len(lists.allowed) == 0 && len(lists.blocked) == 0 {
		return nil
	}
	cluster, namespaced := s.scopes()
	found := map[ReasonKind]map[string][]string{PolicyBlocked: {}, PolicyOutside: {}}
	violates := func(scope string) bool { return lists.isBlocked(scope) || lists.isOutside(scope) }
	note := func(u scopeUse) {
		if lists.isBlocked(u.scope) {
			found[PolicyBlocked][u.scope] = append(found[PolicyBlocked][u.scope], NameOf(u.policy))
		}
		if lists.isOutside(u.scope) {
			found[PolicyOutside][u.scope] = append(found[PolicyOutside][u.scope], NameOf(u.policy))
		}
	}
	inConflict := map[string]bool{}
	for _, u := range cluster {
		if violates(u.scope) {
			inConflict[u.policy.GetName()] = true
			note(u)
		}
	}
	for _, u := range namespaced {
		if violates(u.scope) && !u.isSkipped(cluster, inConflict) {
			note(u)
		}
	}
	var reasons []Reason
	for kind, scopes := range found {
		for scope, policies := range scopes {
			reasons = append(reasons, scopeReason(kind, scope, policies, s, lists))
		}
	}
	return reasons
}

// isSkipped reports whether u is inside a scope of a ClusterImagePolicy, and none of the
// policies whose scopes it is inside is in conflict.
func (u scopeUse) isSkipped(cluster []scopeUse, inConflict map[string]bool) bool {
	skipped := false
	for _, c := range cluster {
		if !registries.ScopeIsNestedInsideScope(u.scope, c.scope) {
			continue
		}
		if inConflict[c.policy.GetName()] {
			return false
		}
		skipped = true
	}
	return skipped
}

// policyOf returns what an image policy says: for pods of a namespace, "" for all, of the images in some scopes.
func policyOf(o Object) (namespace string, scopes []string, spec configv1.ImageSigstoreVerificationPolicy) {
	text := func(scope configv1.ImageScope) string { return string(scope) }
	switch o := o.(type) {
	case *configv1.ClusterImagePolicy:
		return "", convert.Each(o.Spec.Scopes, text), o.Spec.Policy
	case *configv1.ImagePolicy:
		return o.Namespace, convert.Each(o.Spec.Scopes, text), o.Spec.Policy
	default:
		return "", nil, spec
	}
}

// ScopesOf returns the scopes of an image policy, and whether it remaps the identities of signatures.
func ScopesOf(o Object) (scopes []string, remaps bool) {
	_, scopes, spec := policyOf(o)
	return scopes, spec.SignedIdentity != nil && spec.SignedIdentity.MatchPolicy == configv1.IdentityMatchPolicyRemapIdentity
}

// scopes returns the scopes of the ClusterImagePolicies, and those of the ImagePolicies.
func (s Set) scopes() (cluster, namespaced []scopeUse) {
	for _, o := range s.Policies {
		namespace, scopes, _ := policyOf(o)
		uses := convert.Each(scopes, func(scope string) scopeUse { return scopeUse{o, scope} })
		if namespace == "" {
			cluster = append(cluster, uses...)
		} else {
			namespaced = append(namespaced, uses...)
		}
	}
	return cluster, namespaced
}

// over returns the entries of list that cover scope.
func over(scope string, list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(entry string) bool { return !registries.ScopeIsNestedInsideScope(scope, entry) })
}

func (l policyLists) isBlocked(scope string) bool { return len(over(scope, l.blocked)) > 0 }

func (l policyLists) isOutside(scope string) bool {
	return len(l.allowed) > 0 && len(over(scope, l.allowed)) == 0
}

// scopeReason returns why MCO rejects a scope. Image cluster is among the offenders once for
// each entry that blocks the scope, as each of them would have to be removed.
func scopeReason(kind ReasonKind, scope string, policies []string, s Set, lists policyLists) Reason {
	offenders := slices.Clone(policies)
	var text string
	switch blocking := slices.Compact(slices.Sorted(slices.Values(over(scope, lists.blocked)))); {
	case kind == PolicyBlocked:
		for range blocking {
			offenders = append(offenders, imageCluster)
		}
		text = fmt.Sprintf("scope %q of %s is inside blockedRegistries of Image cluster (%s)", scope, enumerate(policies), enumerate(blocking))
		if payload := payloadRepository(s.Payload); slices.ContainsFunc(blocking, func(b string) bool { return registries.ScopeIsNestedInsideScope(payload, b) }) {
			text += ", which counts as the release payload, blocked by it, has a digest mirror"
		}
	case len(s.Registries.AllowedRegistries) > 0:
		offenders = append(offenders, imageCluster)
		text = fmt.Sprintf("scope %q of %s is outside allowedRegistries of Image cluster (%s)", scope, enumerate(policies), enumerate(lists.allowed))
	default:
		offenders = append(offenders, imageCluster)
		text = fmt.Sprintf("scope %q of %s is outside %s, which is all that is allowed where blockedRegistries of Image cluster covers the release payload and that has a digest mirror",
			scope, enumerate(policies), strings.Join(lists.allowed[:1], ""))
	}
	return newReason(kind, scope, text, offenders...)
}
