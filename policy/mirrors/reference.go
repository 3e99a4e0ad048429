package mirrors

import "strings"

// ByDigest reports whether nodes pull ref by its digest. A tag beside it is dropped, and an
// "@" stands nowhere else in a reference.
func ByDigest(ref string) bool { return strings.Contains(ref, "@") }

// IsBelow reports whether scope covers ref, both as written: ref goes on where a part of its
// name ends (containers/image, sysregistriesv2.refMatchingPrefix).
func IsBelow(ref, scope string) bool {
	rest, ok := strings.CutPrefix(ref, strings.TrimSuffix(scope, "/"))
	return ok && (rest == "" || strings.ContainsRune("/:@", rune(rest[0])))
}
