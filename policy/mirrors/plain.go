package mirrors

import (
	"strings"
)

// A plainRef is a reference of the plain form that almost all have: a host with a dot or a
// port, a path in lower case, and a tag or a sha256 digest. Such a reference can be parsed
// without the regular expressions of containers/image, in a tenth of the time. All others,
// valid or not, are left to containers/image. Fuzz tests compare the two.
type plainRef struct {
	full string // with ":latest" where the image names no version
	name string // the repository with its host
}

// parsePlain parses image, and reports whether it is a plain reference.
func parsePlain(image string) (plainRef, bool) {
	name, ok := cutVersion(image)
	if !ok || !isPlainName(name) {
		return plainRef{}, false
	}
	if name == image {
		image += ":latest"
	}
	return plainRef{full: image, name: name}, true
}

// version returns the tag or the digest, with the character before it.
func (r plainRef) version() string { return r.full[len(r.name):] }

func (r plainRef) isDigested() bool { return r.version()[0] == '@' }

// at returns r with location instead of its first cut bytes, and reports whether the result
// is plain.
func (r plainRef) at(location string, cut int) (plainRef, bool) {
	if location == r.full[:cut] {
		return r, true
	}
	moved := plainRef{full: location + r.full[cut:]}
	moved.name = moved.full[:len(moved.full)-len(r.version())]
	return moved, isPlainName(moved.name)
}

func isPlainName(name string) bool {
	host, path, found := strings.Cut(name, "/")
	if !found || len(name) > maxName || !isPlainHost(host) {
		return false
	}
	for component := range strings.SplitSeq(path, "/") {
		if !isPlainWord(component) {
			return false
		}
	}
	return true
}

// maxName is well below what containers/image allows a name to have (255).
const maxName = 200

// cutVersion cuts off the tag or the digest, and reports whether it is plain.
func cutVersion(image string) (name string, ok bool) {
	if name, digest, found := strings.Cut(image, "@"); found {
		hex, isSHA256 := strings.CutPrefix(digest, "sha256:")
		return name, isSHA256 && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == "" && !strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":")
	}
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i], isPlainWord(image[i+1:]) && len(image)-i < 100
	}
	return image, true
}

// isPlainHost reports whether host is a DNS name with a dot, with or without a port. Docker
// Hub is not plain because it has several names.
func isPlainHost(host string) bool {
	name, port, hasPort := strings.Cut(host, ":")
	if hasPort && (port == "" || strings.Trim(port, "0123456789") != "") {
		return false
	}
	return isPlainWord(name) && !strings.Contains(name, "_") && strings.Contains(name, ".") && !strings.HasSuffix(name, "docker.io")
}

// isPlainWord reports whether s consists of lower case letters and digits, with single dots,
// dashes and underscores between them.
func isPlainWord(s string) bool {
	separator := true // s may not begin with one
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			separator = false
		case (c == '.' || c == '-' || c == '_') && !separator:
			separator = true
		default:
			return false
		}
	}
	return !separator
}
