package policy

import (
	"strings"

	"github.com/containers/image/v5/docker/reference"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

func pullType(ref string) string {
	if mirrors.ByDigest(ref) {
		return "digest"
	}
	return "tag"
}

func kindFor(ref string) string {
	if mirrors.ByDigest(ref) {
		return "an ImageDigestMirrorSet"
	}
	return "an ImageTagMirrorSet"
}

// servesPullType reports whether e's mirrors are for pulls like that of ref.
func servesPullType(e mirrors.Entry, ref string) bool {
	return (mirrors.KindOf(e.Object) == mirrors.TagMirrorSetGVK.Kind) != mirrors.ByDigest(ref)
}

// repository returns the normalised name of ref without tag and digest.
func repository(ref string) string {
	parsed, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return parsed.Name()
}

// hostname returns a host without its port.
func hostname(host string) string {
	if address, _, ok := strings.Cut(host, "]"); ok {
		return strings.TrimPrefix(address, "[")
	}
	name, _, _ := strings.Cut(host, ":")
	return strings.ToLower(name)
}
