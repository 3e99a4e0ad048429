package crd

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nameField matches the paths of sources and mirrors, whose pattern is a registry, or a repository in it.
var nameField = regexp.MustCompile(`\.(source|mirrors\[[0-9]+\])$`)

// explain puts into words, in front of the pattern, why a name does not match it.
func explain(e *field.Error) {
	name, ok := e.BadValue.(string)
	if !ok || !nameField.MatchString(e.Field) || !strings.Contains(e.Detail, " should match ") {
		return
	}
	if clause := misnamed(name); clause != "" {
		e.Detail = clause + ": " + e.Detail
	}
}

// misnamed returns the usual mistake in the name of a source or a mirror, as a clause, "" if it makes none.
func misnamed(name string) string {
	scheme, _, hasScheme := strings.Cut(name, "://")
	host, path, hasPath := strings.Cut(name, "/")
	last := path[strings.LastIndex(path, "/")+1:]
	switch {
	case name == "":
		return "it is empty"
	case strings.ContainsAny(name, "<>{}$%"):
		return "a placeholder is left in it"
	case strings.ContainsAny(name, " \t\r\n"):
		return "there is a space in it"
	case hasScheme:
		return fmt.Sprintf("leave out %q, as a name has no scheme", scheme+"://")
	case strings.HasSuffix(name, "/"):
		return "it must not end with a slash"
	case hasPath && host == "", strings.Contains(name, "//"):
		return "a part between slashes is empty"
	case strings.HasPrefix(name, "*.") && hasPath:
		return "a wildcard has no path: it stands for whole registries"
	case strings.Contains(name, "*"):
		return "a wildcard stands for the first part of a source's host alone, as in *.example.com"
	case strings.Contains(name, "@"):
		return "a digest does not belong there: entries are for repositories"
	case strings.Contains(last, ":"):
		return "a tag does not belong there: entries are for repositories"
	case strings.Contains(host, ":") && strings.Trim(host[strings.Index(host, ":")+1:], "0123456789") != "":
		return "a port is a number, and a tag does not belong there"
	case path != strings.ToLower(path):
		return "a path must be in lower case"
	default:
		return ""
	}
}
