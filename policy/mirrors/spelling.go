package mirrors

import "strings"

// OneSpelling returns a reference, or a registry or a part of one, with the one name of its registry: in small letters,
// without the port that it has anyway, and docker.io for the other names of the Docker Hub. It is for questions about a
// place under any of its names: what meets there, what is copied to it or deleted from it, how often it is asked.
//
// It says nothing about what nodes do: they look up entries, credentials and CAs by the name as it is written.
func OneSpelling(ref string) string {
	registry, path := ref, ""
	if end := strings.IndexByte(ref, '/'); end >= 0 {
		registry, path = ref[:end], ref[end:]
	}
	one := strings.TrimSuffix(strings.ToLower(registry), ":443")
	if one == "index.docker.io" || one == "registry-1.docker.io" {
		one = "docker.io"
	}
	if one == registry {
		return ref
	}
	return one + path
}

// SamePlace reports whether two references are spellings of one place.
func SamePlace(a, b string) bool { return a == b || OneSpelling(a) == OneSpelling(b) }
