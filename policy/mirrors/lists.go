package mirrors

import (
	"slices"

	"github.com/containers/image/v5/docker/reference"
	"github.com/openshift/runtime-utils/pkg/registries"
)

// policyLists are the registry lists as MCO writes them into policy.json.
type policyLists struct{ allowed, blocked []string }

// newPolicyLists does what MCO does with the lists, given the registries that it blocks in
// registries.conf. The repository of the release payload stays allowed because its mirrors
// have to work (getValidBlockedAndAllowedRegistries).
func newPolicyLists(s Set, blocked []string) policyLists {
	lists := policyLists{allowed: slices.Clone(s.Registries.AllowedRegistries)}
	if len(blocked) == 0 { // as almost everywhere: to parse the release image takes longer than the rest
		return lists
	}
	payload := payloadRepository(s.Payload)
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
	if len(s.Registries.BlockedRegistries) == 0 {
		return nil
	}
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
