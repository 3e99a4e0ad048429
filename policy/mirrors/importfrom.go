package mirrors

import (
	"cmp"
	"path"
	"strings"
)

// RefusesImport reports whether openshift-apiserver refuses a new reference to an image in an ImageStream: by the
// host in its name and ImportFrom, whatever the mirrors. It restates AdmitDockerImageReference and WhitelistRegistry
// (openshift-apiserver at bbe554a9, pkg/image/apis/image/validation/whitelist/whitelister.go): a list without a port means
// 443, or 80 where it says insecure, and the integrated registry is always allowed.
func (s Set) RefusesImport(ref string) bool {
	repository, _, ok := Canonical(ref)
	name := HostOf(repository)
	if len(s.ImportFrom) == 0 || !ok || strings.HasSuffix(name, ".svc:5000") {
		return false
	}
	host, port := name, "443"
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
		host, port = name[:i], name[i+1:]
	}
	for _, allowed := range s.ImportFrom {
		glob, at, _ := strings.Cut(allowed.DomainName, ":")
		if allowed.Insecure {
			at = cmp.Or(at, "80")
		}
		isHost, _ := path.Match(glob, host)
		isPort, _ := path.Match(cmp.Or(at, "443"), port)
		if (isHost || host == "docker.io" && (glob == "registry-1.docker.io" || glob == "index.docker.io")) && isPort {
			return false
		}
	}
	return true
}
