package mirrors

import (
	"fmt"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	"github.com/containers/image/v5/pkg/sysregistriesv2"
)

// RewriteError says that a reference, rewritten for a mirror, is none, so that nodes pull it from nowhere.
type RewriteError struct {
	// Source and Mirror are as the entry has them, Rewritten is what they make of a reference.
	Source, Mirror, Rewritten string

	rest string // of the reference, behind what the source covers
	host string // of the reference
	err  error  // of containers/image
}

// culprit says which mirror of reg turns ref into something that is no reference, which
// containers/image does not say.
func culprit(reg *sysregistriesv2.Registry, ref reference.Named, err error) error {
	full := ref.String()
	matched := len(reg.Prefix)
	if suffix, ok := strings.CutPrefix(reg.Prefix, "*"); ok {
		matched = strings.Index(full, suffix) + len(suffix)
	}
	for _, m := range reg.Mirrors {
		rewritten := m.Location + full[matched:]
		if _, bad := reference.ParseNamed(rewritten); bad != nil {
			return &RewriteError{reg.Prefix, m.Location, rewritten, full[matched:], reference.Domain(ref), err}
		}
	}
	return err
}

func (e *RewriteError) Error() string {
	return fmt.Sprintf("mirror %q would make it %q: %v", e.Mirror, e.Rewritten, e.err)
}

func (e *RewriteError) Unwrap() error { return e.err }

// Mended returns the source and the mirror to write instead, by what the cause is: the source covers a host without its port; or the mirror
// lacks the path that the source has, has a host without a dot or port, or is the Docker Hub by its old name. They are empty for another
// cause.
func (e *RewriteError) Mended() (source, mirror string) {
	source, rest := e.Source, e.rest
	if port, _, covered := strings.Cut(rest, "/"); covered && strings.HasPrefix(port, ":") {
		source, rest = e.host, strings.TrimPrefix(rest, port)
	}
	host, path, _ := strings.Cut(e.Mirror, "/")
	switch {
	case host == "index.docker.io":
		host = "docker.io"
	case !strings.ContainsAny(host, ".:"):
		host += ":443"
	}
	if _, of, isPath := strings.Cut(source, "/"); path == "" && isPath && (host == "docker.io" || !strings.HasPrefix(rest, "/")) {
		path = of
	}
	if host == "docker.io" && !strings.Contains(path+rest, "/") { // which has no repository without a namespace
		path = "library/" + path
	}
	mirror = strings.TrimSuffix(host+"/"+path, "/")
	if _, err := reference.ParseNamed(mirror + rest); err != nil {
		return "", ""
	}
	return source, mirror
}
