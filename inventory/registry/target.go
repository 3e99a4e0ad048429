package registry

import (
	"cmp"
	_ "crypto/sha256" // digest.Digest.Validate knows only the algorithms that are linked in
	_ "crypto/sha512"
	"strings"

	"github.com/containers/image/v5/manifest"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A target is a parsed Location.
type target struct {
	wire.Repository
	// digest is set if the reference has one; otherwise tag is.
	digest digest.Digest
	tag    string
	depth  mirrors.Depth
}

func parseTarget(l mirrors.Location) (target, *wire.Failure) {
	r, version, unreadable := wire.Locate(l)
	if unreadable != nil {
		return target{}, unreadable
	}
	t := target{Repository: r, depth: l.Depth}
	if version[0] == '@' {
		t.digest = digest.Digest(version[1:])
	} else {
		t.tag = version[1:]
	}
	return t, nil
}

// identifier returns the digest or tag that names the image in the path of a request.
func (t target) identifier() string { return cmp.Or(t.digest.String(), t.tag) }

// sum returns the digest of a manifest that was served, by the algorithm of the digest asked for, or the usual one.
func (t target) sum(content []byte) digest.Digest {
	if t.digest != "" {
		return sum(t.digest.Algorithm(), content)
	}
	return sum(digest.Canonical, content)
}

// sum returns the digest of a manifest, as nodes do: of its payload, if it carries its signatures with it.
func sum(algorithm digest.Algorithm, content []byte) digest.Digest {
	if d, err := manifest.Digest(content); algorithm == digest.Canonical && err == nil {
		return d
	}
	return algorithm.FromBytes(content)
}

// validDigest returns d as a digest, "" if it cannot be checked.
func validDigest(d string) digest.Digest {
	parsed, err := digest.Parse(strings.TrimSpace(d))
	if err != nil {
		return ""
	}
	return parsed
}
