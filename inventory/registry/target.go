package registry

import (
	"cmp"
	_ "crypto/sha256" // digest.Digest.Validate knows only the algorithms that are linked in
	_ "crypto/sha512"
	"strings"

	"github.com/containers/image/v5/manifest"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A target is a parsed Location.
type target struct {
	// name is the repository with its host, by which credentials are looked up.
	name string
	// host is the registry as the reference names it ("docker.io").
	host string
	// api is the host that speaks for the registry ("registry-1.docker.io").
	api string
	// repository is the path without the host ("library/nginx").
	repository string
	// digest is set if the reference has one; otherwise tag is.
	digest digest.Digest
	tag    string

	insecure bool
	depth    mirrors.Depth
}

// parseTarget reads a reference as nodes do.
func parseTarget(l mirrors.Location) (target, *failure) {
	name, version, ok := mirrors.Canonical(l.Ref)
	if !ok {
		return target{}, unreachable("no node can read the reference %s", quote(l.Ref))
	}
	t := target{name: name, insecure: l.Insecure, depth: l.Depth}
	t.host, t.repository, _ = strings.Cut(name, "/")
	t.api = apiHost(t.host)
	if version[0] == '@' {
		t.digest = digest.Digest(version[1:])
	} else {
		t.tag = version[1:]
	}
	return t, nil
}

// apiHost returns the host to ask for a registry: the registry itself, except for the
// Docker Hub (containers/image docker/docker_client.go, newDockerClient).
func apiHost(host string) string {
	if host == "docker.io" {
		return "registry-1.docker.io"
	}
	return host
}

// identifier returns the digest or tag that names the image in the path of a request.
func (t target) identifier() string { return cmp.Or(t.digest.String(), t.tag) }

// scope returns what a token must grant to read the repository.
func (t target) scope() string { return "repository:" + t.repository + ":pull" }

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
