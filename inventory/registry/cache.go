package registry

import (
	"errors"
	"slices"
	"strings"
)

// refusesUploads are the words by which pull-through caches refuse an upload, in lower case:
//
//   - distribution (registry/proxy/proxyblobstore.go, Create), with 405; where it is only read-only, it gives no words
//   - Harbor's proxy projects (src/server/middleware/repoproxy/proxy.go, DisableBlobAndManifestUploadMiddleware), with 405 or 403
//   - groups of Nexus, which have proxies as members (GroupHandler.java, INSUFFICIENT_LICENSE), with 403
//
// Quay's proxy organizations take uploads (endpoints/v2/v2auth.py), and a proxy of Nexus or a remote repository of Artifactory
// has no words of its own that are known: these can only be declared.
var refusesUploads = []string{"the operation is unsupported.", "can not push artifact to a proxy project", "deploying to groups is a pro-licensed feature"}

func saysCache(r response) bool {
	first, _ := firstError(r)
	said := strings.ToLower(first.Message)
	return slices.ContainsFunc(refusesUploads, func(words string) bool { return strings.HasPrefix(said, words) })
}

// IsCache reports whether err, from a library over a Transfer, says that an upload was refused as pull-through caches refuse it.
func IsCache(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.cache
}
