package wire

import (
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Repository is a repository at a registry, as a reference names it.
type Repository struct {
	// Name has the host ("docker.io/library/nginx"); credentials are looked up by it.
	Name string
	// Insecure is Location.Insecure.
	Insecure bool
}

// Locate reads a reference as nodes do. It returns the repository and the version, "@digest" or ":tag".
func Locate(l mirrors.Location) (r Repository, version string, unreadable *Failure) {
	name, version, ok := mirrors.Canonical(l.Ref)
	if !ok {
		return Repository{}, "", Unreachable("no node can read the reference %s", Quote(l.Ref))
	}
	return Repository{Name: name, Insecure: l.Insecure}, version, nil
}

// Host returns the registry as the reference names it ("docker.io"): trust goes by that name.
func (r Repository) Host() string {
	host, _, _ := strings.Cut(r.Name, "/")
	return host
}

// Path returns the repository without the host ("library/nginx").
func (r Repository) Path() string {
	_, path, _ := strings.Cut(r.Name, "/")
	return path
}

// pulling returns the scope that a token must have for reading the repository.
func (r Repository) pulling() string { return "repository:" + r.Path() + ":pull" }

// DockerHub is the host that speaks for docker.io (containers/image docker/docker_client.go, newDockerClient).
const DockerHub = "registry-1.docker.io"

// api returns the host to ask: the registry itself, except for the Docker Hub.
func (r Repository) api() string {
	if host := r.Host(); host != "docker.io" {
		return host
	}
	return DockerHub
}
