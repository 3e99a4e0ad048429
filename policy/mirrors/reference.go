package mirrors

import "strings"

// ByDigest reports whether nodes pull ref by its digest. A tag beside it is dropped, and an
// "@" stands nowhere else in a reference.
func ByDigest(ref string) bool { return strings.Contains(ref, "@") }
