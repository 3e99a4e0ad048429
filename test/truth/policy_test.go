package truth

import (
	"encoding/json"
	"slices"

	"github.com/containers/image/v5/docker/reference"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A requirement and a policyJSON are the parts of policy.json.
type requirement struct {
	Type string `json:"type"`
}

type policyJSON struct {
	Default    []requirement                       `json:"default"`
	Transports map[string]map[string][]requirement `json:"transports"`
}

var (
	accept = []requirement{{"insecureAcceptAnything"}}
	reject = []requirement{{"reject"}}
)

// signaturePolicy writes policy.json as MCO does from its template and the registry
// lists (updatePolicyJSON in its container-runtime-config controller).
func signaturePolicy(set mirrors.Set) ([]byte, error) {
	blocked, allowed, err := policyLists(set)
	if err != nil {
		return nil, err
	}
	scopes := map[string][]requirement{}
	p := policyJSON{Default: accept, Transports: map[string]map[string][]requirement{"docker-daemon": {"": accept}}}
	if len(allowed) > 0 {
		p.Default = reject
	}
	for _, scope := range allowed {
		scopes[scope] = accept
	}
	if len(blocked) > 0 {
		p.Default = accept
	}
	for _, scope := range blocked {
		scopes[scope] = reject
	}
	if len(scopes) > 0 {
		p.Transports["docker"] = scopes
	}
	return json.Marshal(p)
}

// policyLists returns what MCO rejects and allows in policy.json. It spares the
// repository of the release payload, provided that a digest mirror serves it
// (getValidBlockedAndAllowedRegistries, payloadRepoHasUnblockedMirror).
func policyLists(set mirrors.Set) (blocked, allowed []string, err error) {
	payload, noPayload := reference.ParseNamed(set.Payload)
	for _, scope := range set.Registries.BlockedRegistries {
		if noPayload != nil || !registries.ScopeIsNestedInsideScope(payload.Name(), scope) {
			blocked = append(blocked, scope)
			continue
		}
		if held, err := mirrored(set, payload); err != nil {
			return nil, nil, err
		} else if !held {
			continue // MCO leaves the entry out
		}
		if scope != payload.Name() {
			blocked = append(blocked, scope)
		}
		allowed = append(allowed, payload.Name())
	}
	return blocked, append(allowed, set.Registries.AllowedRegistries...), nil
}

// mirrored reports whether a place that is not blocked serves the payload. Tag
// mirrors do not count.
func mirrored(set mirrors.Set, payload reference.Named) (bool, error) {
	without(mirrors.TagMirrorSetGVK.Kind)(&set)
	set.Payload = ""
	set.Registries = configv1.RegistrySources{BlockedRegistries: set.Registries.BlockedRegistries, InsecureRegistries: set.Registries.InsecureRegistries}
	table, err := mirrors.ResolveUnchecked(set)
	if err != nil {
		return false, err
	}
	route, err := table.Route(payload.String(), "")
	if err == nil {
		err = route.Err
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(route.Sources, func(p mirrors.PullSource) bool {
		return !slices.ContainsFunc(set.Registries.BlockedRegistries, func(scope string) bool {
			return registries.ScopeIsNestedInsideScope(repositoryOf(p.Ref), scope)
		})
	}), nil
}
