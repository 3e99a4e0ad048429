package registry

import (
	_ "crypto/sha256" // digest.Digest.Validate knows only the algorithms that are linked in
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/containers/image/v5/docker/reference"
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
func parseTarget(l mirrors.Location) (target, error) {
	name, version, ok := mirrors.ParsePlain(l.Ref)
	if !ok {
		return parseAnyTarget(l)
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

// parseAnyTarget leaves the reading to the nodes' own code (containers/image).
func parseAnyTarget(l mirrors.Location) (target, error) {
	named, err := reference.ParseNormalizedNamed(l.Ref)
	if err != nil {
		return target{}, fmt.Errorf("parsing the reference %q: %w", l.Ref, err)
	}
	t := target{
		name:       named.Name(),
		host:       reference.Domain(named),
		repository: reference.Path(named),
		insecure:   l.Insecure,
		depth:      l.Depth,
	}
	t.api = apiHost(t.host)
	switch r := reference.TagNameOnly(named).(type) {
	case reference.Digested: // also where there is a tag: CRI-O drops it
		t.digest = r.Digest()
	case reference.Tagged:
		t.tag = r.Tag()
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
func (t target) identifier() string {
	if t.digest != "" {
		return t.digest.String()
	}
	return t.tag
}

// scope returns what a token must grant to read the repository.
func (t target) scope() string { return "repository:" + t.repository + ":pull" }

// matches reports whether the digest of content is the one asked for. For a tag, any
// content will do.
func (t target) matches(content []byte) bool {
	return t.digest == "" || sum(t.digest.Algorithm(), content) == t.digest
}

// sum returns the digest of a manifest: of its payload, if it carries its
// signatures with it.
func sum(algorithm digest.Algorithm, manifest []byte) digest.Digest {
	if payload, ok := signedPayload(manifest); ok {
		manifest = payload
	}
	return algorithm.FromBytes(manifest)
}

// validDigest returns d as a digest, "" if it cannot be checked.
func validDigest(d string) digest.Digest {
	parsed, err := digest.Parse(strings.TrimSpace(d))
	if err != nil {
		return ""
	}
	return parsed
}

// signedPayload returns the part of a signed schema 1 manifest that its digest is
// about. Such a manifest says where its signatures were put in, so that they can
// be taken out again (libtrust, jsonsign.go; containers/image manifest.Digest
// does the same).
func signedPayload(manifest []byte) ([]byte, bool) {
	var signed struct {
		SchemaVersion int `json:"schemaVersion"`
		Signatures    []struct {
			Protected string `json:"protected"`
		} `json:"signatures"`
	}
	if json.Unmarshal(manifest, &signed) != nil || signed.SchemaVersion != 1 || len(signed.Signatures) == 0 {
		return nil, false
	}
	var place struct {
		FormatLength int    `json:"formatLength"`
		FormatTail   string `json:"formatTail"`
	}
	protected, err := base64.RawURLEncoding.DecodeString(signed.Signatures[0].Protected)
	if err != nil || json.Unmarshal(protected, &place) != nil {
		return nil, false
	}
	tail, err := base64.RawURLEncoding.DecodeString(place.FormatTail)
	if err != nil || place.FormatLength < 0 || place.FormatLength > len(manifest) {
		return nil, false
	}
	return append(append([]byte(nil), manifest[:place.FormatLength]...), tail...), true
}
