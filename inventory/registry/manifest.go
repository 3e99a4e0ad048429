package registry

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

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
	credential credential
	// blob is set to ask for a blob instead of the manifest of target: for all of it if
	// whole is set, else for its first byte.
	blob  digest.Digest
	whole bool
	// ofReferrers is set to ask what refers to the manifest of target.
	ofReferrers bool
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
	if r, err = l.get(ctx, r); err != nil {
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
	r, err := l.ask(ctx, http.MethodHead)
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
	switch {
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return policy.Fact{}, l.denied(r)
	case r.status != http.StatusOK:
		return policy.Fact{}, statusFailure(host, r)
	case r.cut:
		// containers/image fails while it reads, so that it goes on to the next place.
		return policy.Fact{}, unreachable("%s answers with more than 4 MiB, which nodes do not accept as a manifest", host)
	}
	mediaType, ok := l.manifestType(r)
	if !ok {
		return policy.Fact{}, mismatch("%s answers 200 with %s, which is not an image manifest; check what serves this path",
			host, quote(describeType(r.header)))
	}
	if !l.target.matches(r.body) {
		return policy.Fact{}, mismatch("%s serves other content under this digest (%s); nodes would stop there",
			host, sum(l.target.digest.Algorithm(), r.body))
	}
	fact := policy.Fact{
		Presence:  policy.Present,
		Digest:    string(sum(l.algorithm(), r.body)),
		MediaType: mediaType,
		Time:      time.Now(),
	}
	if !isIndex(mediaType) {
		fact.Instances = []policy.Instance{{Digest: string(sum(digest.Canonical, r.body))}}
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
	if t := header.Get("Content-Type"); t != "" {
		return t
	}
	return "no content type"
}

func isIndex(mediaType string) bool { return types.MediaType(mediaType).IsIndex() }

const (
	// maxAgain is how often a request is retried that a registry could not answer at the
	// moment. Nodes do so 4 times, for 429 only.
	maxAgain   = 3
	firstPause = 100 * time.Millisecond
)

// ask sends the request by method, at the registry's pace, and retries if that may help. An error is a *failure or the end of ctx.
func (l *lookup) ask(ctx context.Context, method string) (response, error) {
	for attempt := 0; ; attempt++ {
		r, err := l.once(ctx, method)
		var f *failure
		if !errors.As(err, &f) || !f.again || attempt == maxAgain || isInconclusive(method, f) {
			return r, err
		}
		if l.endpoint.breaker.open() != nil {
			return r, err
		}
		if rest := pause(attempt, f); rest > maxRetryWait || sleep(ctx, rest) != nil {
			return r, err
		}
	}
}

// pause returns how long to wait before asking again: as long as the registry
// says, or twice as long each time.
func pause(attempt int, f *failure) time.Duration {
	rest := firstPause << attempt
	return max(f.after, rest/2+rand.N(rest/2)) //nolint:gosec // not a secret
}

// isInconclusive reports whether f, by method, says nothing of a registry before GET has
// said the same: some answer every HEAD with 500 and serve every GET. A registry that
// does not answer at all, or asks for time, will do so to GET too.
func isInconclusive(method string, f *failure) bool {
	return method == http.MethodHead && f.load != throttled && f.load != broken
}

func (l *lookup) once(ctx context.Context, method string) (response, error) {
	e := l.endpoint
	if cause := e.breaker.open(); cause != nil {
		return response{}, cause
	}
	slot, err := e.pace.acquire(ctx, e.api)
	if err != nil {
		return response{}, err
	}
	r, err := e.transport.ask(ctx, l.request(method))
	f := l.failed(ctx, r, err)
	switch {
	case f == nil && err != nil: // the caller has left
		e.pace.leave()
		return r, err
	case f == nil:
		e.pace.release(slot, fine, 0)
		e.breaker.answered()
		return r, nil
	case isInconclusive(method, f):
		e.pace.leave()
		return r, f
	}
	e.pace.release(slot, f.load, f.after)
	if f.load != throttled {
		e.down(f, false)
	}
	return r, f
}

func (l *lookup) request(method string) request {
	e := l.endpoint
	if l.ofReferrers {
		return request{
			method:        method,
			url:           e.url(l.session, l.target.repository, "referrers", l.target.digest.String()),
			authorization: l.authorization(),
			accept:        []string{string(types.OCIImageIndex)},
			limit:         maxManifest,
		}
	}
	if l.blob != "" {
		r := request{
			method:        method,
			url:           e.url(l.session, l.target.repository, "blobs", l.blob.String()),
			authorization: l.authorization(),
			firstByte:     method == http.MethodGet && !l.whole,
		}
		if l.whole {
			r.limit = maxConfig
		}
		return r
	}
	return request{
		method:        method,
		url:           e.url(l.session, l.target.repository, "manifests", l.target.identifier()),
		authorization: l.authorization(),
		accept:        manifestTypes,
		limit:         maxManifest,
	}
}

// failed returns why there is nothing to judge, nil if there is or if the caller
// has left.
func (l *lookup) failed(ctx context.Context, r response, err error) *failure {
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return connectionFailure(l.endpoint.api, err, l.endpoint.transport.timeoutFor(err))
	}
	if f := statusFailure(l.endpoint.api, r); f.load != fine {
		return f
	}
	return nil
}

// algorithm is that of the digest asked for, or the usual one.
func (l *lookup) algorithm() digest.Algorithm {
	if l.target.digest != "" {
		return l.target.digest.Algorithm()
	}
	return digest.Canonical
}
