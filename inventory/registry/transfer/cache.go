package transfer

import (
	"errors"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
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

// A cacheRefusal is the answer of a pull-through cache to an upload.
type cacheRefusal struct{ *wire.Failure }

// Unwrap returns what the answer means of any registry.
func (c cacheRefusal) Unwrap() error { return c.Failure }

func saysCache(r wire.Response) bool {
	first, _ := r.FirstError()
	said := strings.ToLower(first.Message)
	return slices.ContainsFunc(refusesUploads, func(words string) bool { return strings.HasPrefix(said, words) })
}

// IsCache reports whether err, from a library over what New returns, says that an upload was refused as pull-through caches refuse it.
func IsCache(err error) bool {
	return errors.As(err, new(cacheRefusal))
}
