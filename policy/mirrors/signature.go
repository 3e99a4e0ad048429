package mirrors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/containers/image/v5/docker/policyconfiguration"
	"github.com/containers/image/v5/docker/reference"
	"github.com/openshift/runtime-utils/pkg/registries"
)

// A signaturePolicy is what /etc/containers/policy.json says of registries. MCO
// writes allowedRegistries and blockedRegistries there as well (updatePolicyJSON
// in its container-runtime-config controller): the first as all that is accepted,
// the second as what is rejected. Nodes look an image up by the name that was asked
// for, not by the mirror that served it (docker_image_src.go, Reference), so that a
// mirror is no way around.
type signaturePolicy struct {
	allowed, blocked map[string]bool
	// rest says why what neither names is refused, "" if it is accepted.
	rest string
}

// newSignaturePolicy does what MCO does with the lists, given those that it blocks
// in registries.conf. The repository of the release payload is spared, as its
// mirrors have to work (getValidBlockedAndAllowedRegistries).
func newSignaturePolicy(s Set, blocked []string) (signaturePolicy, error) {
	payload := payloadRepository(s.Payload)
	allowed := slices.Clone(s.Registries.AllowedRegistries)
	var rejected []string
	for _, scope := range blocked {
		if payload == "" || !registries.ScopeIsNestedInsideScope(payload, scope) {
			rejected = append(rejected, scope)
			continue
		}
		allowed = append(allowed, payload)
		if scope != payload {
			rejected = append(rejected, scope)
		}
	}
	onlyPayload := len(allowed) == 1 && allowed[0] == payload
	if len(allowed) > 0 && len(rejected) > 0 && !onlyPayload {
		return signaturePolicy{}, errors.New("allowedRegistries and blockedRegistries of Image cluster are both set")
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

// refuses says why a node would not run ref whoever serves it, "" if it would.
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

// policyScopes are the keys of policy.json that cover ref, the narrowest first.
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

// blockedRegistries returns the blocked registries that MCO puts into
// registries.conf: all but those that would cut the release payload off, which it
// leaves out with a word in its log.
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
		if KindOf(o) != TagMirrorSet.Kind {
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
