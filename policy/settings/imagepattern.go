package settings

import (
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors/policyfile"
)

// An ImagePattern is one of these:
//
//   - "*": every image
//   - "*.example.com": those of all hosts below a domain
//   - "quay.io", "quay.io/team", "quay.io/team/app": those in a scope, as the sources of
//     mirror sets are
//   - "quay.io/team/app:v1", "quay.io/team/app@sha256:...": one image
//
// It matches the image, not its spelling: nodes drop a tag beside a digest, take the tag
// "latest" where there is none, and a registry has several names (mirrors.OneSpelling). A short name is
// matched by "*" only, as it may stand for images of several registries.
type ImagePattern string

// allImages is the pattern of every image.
const allImages ImagePattern = "*"

// Valid reports whether p is one of the above.
func (p ImagePattern) Valid() bool {
	if p == allImages {
		return true
	}
	scope := string(p)
	if suffix, ok := strings.CutPrefix(scope, "*."); ok {
		return suffix != "" && !strings.ContainsAny(suffix, "/:@*")
	}
	if strings.ContainsAny(scope, "* \t\n") || strings.HasSuffix(scope, "/") {
		return false
	}
	host, path, found := strings.Cut(scope, "/")
	if !found {
		_, _, ok := mirrors.Canonical(scope + "/x")
		return ok && host != "" && !strings.Contains(host, "@")
	}
	_, _, ok := mirrors.Canonical(scope)
	return ok && path != ""
}

// Matches reports whether p, which is valid, matches an image.
func (p ImagePattern) Matches(ref string) bool {
	if p == allImages {
		return true
	}
	name, version, ok := mirrors.Canonical(ref)
	if !ok {
		return false
	}
	if suffix, ok := strings.CutPrefix(string(p), "*"); ok {
		host, _, _ := strings.Cut(mirrors.HostOf(name), ":")
		return strings.HasSuffix(host, suffix)
	}
	scope := string(p)
	if !policyfile.IsVersioned(scope) {
		return mirrors.IsBelow(name, scope) || strings.HasPrefix(mirrors.OneSpelling(name)+"/", mirrors.OneSpelling(scope)+"/")
	}
	wantName, wantVersion, ok := mirrors.Canonical(scope)
	return ok && version == wantVersion && mirrors.SamePlace(name, wantName)
}
