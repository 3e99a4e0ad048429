package policy

import (
	"slices"
	"strings"
)

// OwnNamespace is where the guard runs. Without its image no mirror set can be changed,
// not even to repair one.
const OwnNamespace = "mirrorset-guard"

// DefaultProtected are the namespaces without which a cluster does not recover: the guard's
// own, then the ingress routers before everything else, because they block the drain.
var DefaultProtected = []string{OwnNamespace, "openshift-ingress", "openshift-*", "kube-*"}

// MatchesName reports whether a pattern, which may end in "*", matches a name.
func MatchesName(pattern, name string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == name || open && strings.HasPrefix(name, prefix)
}

func isProtectedByDefault(namespace string) bool {
	return slices.ContainsFunc(DefaultProtected, func(p string) bool { return MatchesName(p, namespace) })
}
