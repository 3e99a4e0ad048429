package mirrors

import "strings"

// plainName returns the repository of image, with its host, if image is written in
// the plain way that almost all are: a host with a dot or a port, a path in lower
// case, a tag or a sha256 digest. It reports false for everything else, right or
// wrong, which containers/image then has to parse. It costs a tenth of that, and a
// fuzz test holds it to it.
func plainName(image string) (string, bool) {
	name, ok := cutVersion(image)
	if !ok || len(name) > maxName {
		return "", false
	}
	host, path, found := strings.Cut(name, "/")
	if !found || !isPlainHost(host) {
		return "", false
	}
	for component := range strings.SplitSeq(path, "/") {
		if !isPlainWord(component) {
			return "", false
		}
	}
	return name, true
}

// maxName is well below what containers/image allows a name to have (255).
const maxName = 200

// cutVersion cuts the tag or the digest off, and reports whether it is plain.
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

// isPlainHost reports whether host is a DNS name with a dot, and maybe a port. The
// Docker Hub is not plain, as it goes by other names too.
func isPlainHost(host string) bool {
	name, port, hasPort := strings.Cut(host, ":")
	if hasPort && (port == "" || strings.Trim(port, "0123456789") != "") {
		return false
	}
	return isPlainWord(name) && !strings.Contains(name, "_") && strings.Contains(name, ".") && !strings.HasSuffix(name, "docker.io")
}

// isPlainWord reports whether s is made of lower case letters and digits, with
// single dots, dashes and underscores between them.
func isPlainWord(s string) bool {
	separator := true // none may stand in front
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
