package mirrors

import (
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// ByDigest reports whether nodes pull ref by its digest. A tag beside it is dropped, and an
// "@" stands nowhere else in a reference.
func ByDigest(ref string) bool { return strings.Contains(ref, "@") }

// HostOf returns the registry that a reference names, as written. For a short name, which names none, it returns
// something that is no host.
func HostOf(ref string) string {
	host, _, _ := strings.Cut(ref, "/")
	return host
}

// RepositoryOf returns a reference as written, without its tag and digest.
func RepositoryOf(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		ref = ref[:i]
	}
	return ref
}

// repositoryOf returns a scope without the tag or digest that policy.json may name.
func repositoryOf(scope string) string {
	if policyfile.IsVersioned(scope) {
		return RepositoryOf(scope)
	}
	return scope
}

// IsBelow reports whether scope covers ref, both as written: ref goes on where a part of its
// name ends (containers/image, sysregistriesv2.refMatchingPrefix).
func IsBelow(ref, scope string) bool {
	rest, ok := strings.CutPrefix(ref, strings.TrimSuffix(scope, "/"))
	return ok && (rest == "" || strings.ContainsRune("/:@", rune(rest[0])))
}
