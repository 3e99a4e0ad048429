package mirrors

import (
	"fmt"
	"slices"

	"github.com/containers/image/v5/docker/policyconfiguration"
	"github.com/containers/image/v5/docker/reference"
	"github.com/openshift/runtime-utils/pkg/registries"
)

// A signaturePolicy holds what /etc/containers/policy.json says about registries. MCO writes
// allowedRegistries and blockedRegistries to that file too (updatePolicyJSON in its
// container-runtime-config controller): only the former are accepted, and the latter are
// rejected. Nodes look up an image by the name that was asked for, not by the mirror that
// served it (docker_image_src.go, Reference), so a mirror does not bypass the policy.
type signaturePolicy struct {
	allowed, blocked map[string]bool
	// rest says why images that neither list names are refused; "" if they are accepted.
	rest string
}

// policyLists are the registry lists as MCO writes them into policy.json.
type policyLists struct{ allowed, blocked []string }

// newPolicyLists does what MCO does with the lists, given the registries that it blocks in
// registries.conf. The repository of the release payload stays allowed because its mirrors
// have to work (getValidBlockedAndAllowedRegistries).
func newPolicyLists(s Set, blocked []string) policyLists {
	payload := payloadRepository(s.Payload)
	lists := policyLists{allowed: slices.Clone(s.Registries.AllowedRegistries)}
	for _, scope := range blocked {
		if payload == "" || !registries.ScopeIsNestedInsideScope(payload, scope) {
			lists.blocked = append(lists.blocked, scope)
			continue
		}
		lists.allowed = append(lists.allowed, payload)
		if scope != payload {
			lists.blocked = append(lists.blocked, scope)
		}
	}
	return lists
}

// newSignaturePolicy returns the policy that follows from the lists. MCO rejects having both
// (updatePolicyJSON), unless the repository of the payload is all that is allowed.
func newSignaturePolicy(s Set, lists policyLists) (signaturePolicy, []Reason) {
	allowed, rejected := lists.allowed, lists.blocked
	onlyPayload := len(allowed) == 1 && allowed[0] == payloadRepository(s.Payload)
	if len(allowed) > 0 && len(rejected) > 0 && !onlyPayload {
		return signaturePolicy{}, []Reason{newReason(BothLists, "", "allowedRegistries and blockedRegistries of Image cluster are both set", imageCluster)}
	}
	p := signaturePolicy{allowed: toSet(allowed), blocked: toSet(rejected)}
	switch {
	case len(allowed) == 0 || len(rejected) > 0: // the list that is written last sets the default
	case len(s.Registries.AllowedRegistries) > 0:
		p.rest = "allowedRegistries of Image cluster does not name its registry"
	default:
		p.rest = "blockedRegistries of Image cluster names the release payload's repository alone, which makes nodes accept nothing else"
	}
	return p, nil
}

func toSet(scopes []string) map[string]bool {
	set := make(map[string]bool, len(scopes))
	for _, s := range scopes {
		set[s] = true
	}
	return set
}

func (p signaturePolicy) isEmpty() bool {
	return len(p.allowed) == 0 && len(p.blocked) == 0 && p.rest == ""
}

// refuses says why a node would not run ref, whichever place serves it; "" if it would.
func (p signaturePolicy) refuses(ref reference.Named) string {
	if p.isEmpty() {
		return ""
	}
	for _, scope := range policyScopes(ref) {
		switch {
		case p.blocked[scope]:
			return fmt.Sprintf("blockedRegistries of Image cluster names %s", scope)
		case p.allowed[scope]:
			return ""
		}
	}
	return p.rest
}

// policyScopes returns the keys of policy.json that cover ref, the narrowest first.
func policyScopes(ref reference.Named) []string {
	identity, err := policyconfiguration.DockerReferenceIdentity(ref)
	if err != nil {
		return policyconfiguration.DockerReferenceNamespaces(ref)
	}
	return append([]string{identity}, policyconfiguration.DockerReferenceNamespaces(ref)...)
}

// payloadRepository returns the repository of a release image, "" if there is none.
func payloadRepository(release string) string {
	ref, err := reference.ParseNamed(release)
	if err != nil {
		return ""
	}
	return ref.Name()
}

// blockedRegistries returns the blocked registries that MCO writes to registries.conf. It
// leaves out, and logs, those that would make the release payload unreachable.
func (s Set) blockedRegistries() []string {
	payload, err := reference.ParseNamed(s.Payload)
	if err != nil {
		return s.Registries.BlockedRegistries
	}
	var kept []string
	for _, scope := range s.Registries.BlockedRegistries {
		if !registries.ScopeIsNestedInsideScope(payload.Name(), scope) || s.payloadHasMirror(payload) {
			kept = append(kept, scope)
		}
	}
	return kept
}

// payloadHasMirror reports whether a digest mirror that is not blocked serves the
// payload. Tag mirrors do not count (payloadRepoHasUnblockedMirror).
func (s Set) payloadHasMirror(payload reference.Named) bool {
	digests := Set{Registries: s.Registries}
	for _, o := range s.Objects {
		if KindOf(o) != TagMirrorSetGVK.Kind {
			digests.Objects = append(digests.Objects, o)
		}
	}
	conf, err := generate(digests, s.Registries.BlockedRegistries)
	if err != nil || normalize(&conf) != nil {
		return false
	}
	reg := newIndex(conf.Registries).find(payload.Name())
	if reg == nil {
		return false
	}
	pulls, err := reg.PullSourcesFromReference(payload)
	if err != nil {
		return false
	}
	for _, pull := range pulls {
		blocked := slices.ContainsFunc(s.Registries.BlockedRegistries, func(scope string) bool {
			return registries.ScopeIsNestedInsideScope(pull.Reference.Name(), scope)
		})
		if !blocked {
			return true
		}
	}
	return false
}
