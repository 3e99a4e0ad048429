package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/pullsecret"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// manifestTypes are what nodes accept, in their order (containers/image
// internal/manifest, DefaultRequestedManifestMIMETypes).
var manifestTypes = []string{
	string(types.OCIManifestSchema1),
	string(types.DockerManifestSchema2),
	string(types.DockerManifestSchema1Signed),
	string(types.DockerManifestSchema1),
	string(types.DockerManifestList),
	string(types.OCIImageIndex),
}

// A lookup asks one registry about one image.
type lookup struct {
	endpoint   *endpoint
	session    *session
	target     target
	credential pullsecret.Entry
	// grant is the token in use, nil if there is none; final is set if there is
	// nothing better to be had.
	grant *grant
	final bool
}

// answer asks by GET, as nodes do, and compares the manifest with its digest: nodes stop at another one, and answers to
// HEAD are not to be relied on. Some registries answer 404, 405 or 501 to it, some leave the digest out, and caches answer
// that they have a manifest, but serve another one.
func (l *lookup) answer(ctx context.Context) (policy.Fact, error) {
	var r response
	var err error
	if l.asksByHead() {
		if r, err = l.head(ctx); err != nil {
			return policy.Fact{}, err
		}
		if fact, ok := l.present(r); ok && (!isIndex(fact.MediaType) || !l.readsIndexes()) {
			return fact, nil
		}
	}
	if r, err = l.get(ctx, l.manifest(), r); err != nil {
		return policy.Fact{}, err
	}
	return l.judge(ctx, r)
}

// asksByHead reports whether HEAD comes first where only the existence of a manifest matters. The Docker Hub counts each GET
// of a manifest as a pull, and allows few; it does not count HEAD.
func (l *lookup) asksByHead() bool {
	return l.target.depth == mirrors.DepthExists && l.endpoint.api == apiHost("docker.io")
}

func (l *lookup) readsIndexes() bool {
	return l.endpoint.transport.options.Platforms != nil || l.target.depth > mirrors.DepthExists
}

// head asks by HEAD. Nodes do not, so a bad answer counts as none, and GET decides. Only a
// failure that shows that GET would not be answered either is an error.
func (l *lookup) head(ctx context.Context) (response, error) {
	r, err := l.ask(ctx, http.MethodHead, l.manifest())
	var f *failure
	if errors.As(err, &f) && isInconclusive(http.MethodHead, f) {
		return response{}, nil
	}
	return r, err
}

// present returns the Fact if r, the answer to a HEAD, shows the image beyond doubt.
func (l *lookup) present(r response) (policy.Fact, bool) {
	mediaType := mediaTypeOf(r.header)
	digest := validDigest(r.header.Get("Docker-Content-Digest"))
	if r.status != http.StatusOK || digest == "" || !slices.Contains(manifestTypes, mediaType) {
		return policy.Fact{}, false
	}
	if l.target.digest != "" && digest != l.target.digest {
		return policy.Fact{}, false
	}
	return policy.Fact{Presence: policy.Present, Digest: digest.String(), MediaType: mediaType, Time: time.Now()}, true
}

// judge returns what an answer to a GET means for a node.
func (l *lookup) judge(ctx context.Context, r response) (policy.Fact, error) {
	host := l.endpoint.api
	if f := l.refused(r); f != nil {
		return policy.Fact{}, f
	}
	if r.cut { // containers/image fails while it reads, so that it goes on to the next place.
		return policy.Fact{}, unreachable("%s answers with more than 4 MiB, which nodes do not accept as a manifest", host)
	}
	mediaType, ok := l.manifestType(r)
	if !ok {
		return policy.Fact{}, mismatch("%s answers 200 with %s, which is not an image manifest; check what serves this path",
			host, quote(describeType(r.header)))
	}
	served := l.target.sum(r.body)
	if l.target.digest != "" && served != l.target.digest {
		return policy.Fact{}, mismatch("%s serves other content under this digest (%s); nodes would stop there", host, served)
	}
	fact := policy.Fact{Presence: policy.Present, Digest: served.String(), MediaType: mediaType, Time: time.Now()}
	if !isIndex(mediaType) {
		fact.Instances = []policy.Instance{{Digest: sum(digest.Canonical, r.body).String()}}
		fact.Size = layersOf(r.body)
	}
	var err error
	switch {
	case isIndex(mediaType) && l.readsIndexes():
		err = l.checkIndex(ctx, &fact, r.body)
	case !isIndex(mediaType) && l.target.depth > mirrors.DepthExists:
		err = l.checkImage(ctx, &fact, r.body)
	}
	if err != nil {
		return policy.Fact{}, afterManifest(err)
	}
	return fact, nil
}

// afterManifest returns err as it counts once the registry has served the manifest: a node has
// chosen the place by then, and tries no other. An error that might pass, or that only the guard
// might have, leaves open whether the node gets the image there.
func afterManifest(err error) error {
	var f *failure
	if !errors.As(err, &f) || f.presence != policy.Denied && f.presence != policy.Unreachable {
		return err
	}
	open := *f
	open.presence = policy.Inconclusive
	open.detail = "the manifest is there, but " + f.detail
	return &open
}

// manifestType returns the type as which nodes would read r. They go by the Content-Type;
// unknown types are read as schema 1 (containers/image internal/manifest,
// NormalizedMIMEType).
func (l *lookup) manifestType(r response) (string, bool) {
	var body struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if json.Unmarshal(r.body, &body) != nil {
		return "", false
	}
	mediaType := mediaTypeOf(r.header)
	if slices.Contains(manifestTypes, mediaType) {
		return mediaType, true
	}
	return string(types.DockerManifestSchema1Signed), body.SchemaVersion == 1
}

func mediaTypeOf(header http.Header) string {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return mediaType
}

func describeType(header http.Header) string {
	return cmp.Or(header.Get("Content-Type"), "no content type")
}

func isIndex(mediaType string) bool { return types.MediaType(mediaType).IsIndex() }

// ask sends the request q by method, at the registry's pace, and retries if that may help. An error is a *failure or the end of ctx.
func (l *lookup) ask(ctx context.Context, method string, q request) (r response, err error) {
	mayRepeat := func(f *failure, attempt int) bool {
		return f.passes(attempt) && !isInconclusive(method, f) && l.endpoint.breaker.open() == nil
	}
	q.method = method
	err = again(ctx, mayRepeat, func() error {
		q.authorization = l.keychain().authorization(l.session, l.grant)
		return l.endpoint.paced(ctx, maxRetryWait, func() (isNews bool, err error) {
			var f *failure
			switch r, err = l.endpoint.transport.ask(ctx, q); {
			case err == nil && r.status >= http.StatusBadRequest:
				f = statusFailure(l.endpoint.api, r)
			case err != nil && ctx.Err() == nil:
				f = connectionFailure(l.endpoint.api, err, l.endpoint.transport.timeoutFor(err))
			}
			if f == nil || err == nil && f.load == fine {
				return true, err
			}
			return !isInconclusive(method, f), f
		})
	})
	return r, err
}

// refused returns why an answer to a GET has nothing of what was asked for; nil if it has.
func (l *lookup) refused(r response) *failure {
	switch r.status {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return l.denied(r)
	default:
		return statusFailure(l.endpoint.api, r)
	}
}

// isInconclusive reports whether f, by method, says nothing of a registry before GET has
// said the same: some answer every HEAD with 500 and serve every GET. A registry that
// does not answer at all, or asks for time, will do so to GET too.
func isInconclusive(method string, f *failure) bool {
	return method == http.MethodHead && f.load != throttled && f.load != broken
}

// manifest returns the request for the manifest of target, without its method and authorization.
func (l *lookup) manifest() request {
	return request{url: l.url("manifests", l.target.identifier()), accept: manifestTypes, limit: maxManifest}
}

// blob returns the request for a blob, or if limit is 0 for its first byte.
func (l *lookup) blob(d digest.Digest, limit int64) request {
	return request{url: l.url("blobs", d.String()), limit: limit, firstByte: limit == 0}
}

func (l *lookup) url(kind, what string) string {
	return l.session.scheme + "://" + l.endpoint.api + "/v2/" + l.target.repository + "/" + kind + "/" + what
}
