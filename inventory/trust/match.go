package trust

import (
	"net"
	"path"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	configv1 "github.com/openshift/api/config/v1"
)

// A pattern is an entry of matchImages: "*.example.com:5000/path".
type pattern string

// patternsOf returns all patterns, sorted and each once: the same object is read in
// each version that the cluster serves.
func patternsOf(configs []*configv1.CRIOCredentialProviderConfig) []pattern {
	var patterns []pattern
	for _, c := range configs {
		if c.Spec == nil {
			continue
		}
		for _, p := range c.Spec.MatchImages {
			patterns = append(patterns, pattern(p))
		}
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}

// Matches reports whether nodes may have other credentials for an image, and for its
// mirrors, than the global pull secret: those that CRI-O's credential provider finds
// in the namespace of the pod. A 401 or 403 is no proof then. The reference is the
// one that a pod names, not that of a mirror.
func (t Trust) Matches(ref string) bool {
	if len(t.patterns) == 0 {
		return false
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return false // no node could pull it, whatever its credentials
	}
	return slices.ContainsFunc(t.patterns, func(p pattern) bool { return p.matches(named.Name()) })
}

// matches decides as the kubelet does (k8s.io/kubernetes
// pkg/credentialprovider/keyring.go, URLsMatch): the same port or none in both, the
// same number of labels in the host, and a path that the other begins with, even in
// the middle of a name.
func (p pattern) matches(name string) bool {
	labels, port, prefix := split(string(p))
	gotLabels, gotPort, gotPath := split(name)
	return port == gotPort && strings.HasPrefix(gotPath, prefix) &&
		slices.EqualFunc(labels, gotLabels, matchesLabel)
}

func matchesLabel(label, got string) bool {
	ok, err := path.Match(label, got)
	return err == nil && ok
}

// split takes "host:port/path" apart; the path keeps its slash.
func split(name string) (labels []string, port, rest string) {
	host, rest, found := strings.Cut(name, "/")
	if found {
		rest = "/" + rest
	}
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	}
	return strings.Split(host, "."), port, rest
}
