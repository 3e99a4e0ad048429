package mirrors

import (
	"strings"

	"github.com/containers/image/v5/docker/reference"

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

// isQualified reports whether image names a registry, by the rule of package
// shortnames: what stands before the first slash has a dot or a port, or is
// "localhost".
func isQualified(image string) bool {
	host, _, found := strings.Cut(image, "/")
	return found && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// Repository returns the repository of a reference with its host, as scopes are compared
// with it ("docker.io/library/nginx"), and false for a short name, whose host nodes have
// to find, and for what no node can parse.
func Repository(image string) (string, bool) {
	repository, _, ok := Canonical(image)
	return repository, ok
}

// Canonical returns the repository of a reference with its host, as Repository does, and what
// nodes pull from it: "@" and the digest, or ":" and the tag where there is no digest, which
// is ":latest" if the reference has neither. It returns false where Repository does.
func Canonical(image string) (repository, version string, ok bool) {
	if ref, ok := parsePlain(image); ok {
		return ref.name, ref.version(), true
	}
	if !isQualified(image) {
		return "", "", false
	}
	ref, err := reference.ParseDockerRef(image)
	if err != nil {
		return "", "", false
	}
	return ref.Name(), strings.TrimPrefix(ref.String(), ref.Name()), true
}
