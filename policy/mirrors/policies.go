package mirrors

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/runtime-utils/pkg/registries"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

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

// NotAllowed is why images are refused that are in no allowed registry.
const NotAllowed = "allowedRegistries of Image cluster does not name its registry"

// whyRefused says why images are refused that neither list names; "" if they are not.
func (s Set) whyRefused(lists policyLists) string {
	switch {
	case len(lists.allowed) == 0 || len(lists.blocked) > 0: // the list that is written last sets the default
		return ""
	case len(s.Registries.AllowedRegistries) > 0:
		return NotAllowed
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
