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

// A question is one probe of one registry.
type question struct {
	endpoint   *endpoint
	session    *session
	target     target
	credential credential
	// blob is set if this is asked for, and not the manifest of target: the whole of
	// it, or the first byte.
	blob  digest.Digest
	whole bool
	// grant is the token in use, nil if there is none; settled is set if there is
	// nothing better to be had.
	grant   *grant
	settled bool
}

// answer asks by HEAD, and by GET where HEAD does not settle it. HEAD is cheap, but
// nodes do not use it, and registries get it wrong: some answer 404, 405 or 501 to
// it, others leave the digest out, or say of what they cannot serve that it is there.
// Where more is wanted than that the manifest exists, it is read.
func (q *question) answer(ctx context.Context) (policy.Fact, error) {
	if err := q.authorize(ctx); err != nil {
		return policy.Fact{}, err
	}
	var r response
	var err error
	if q.target.depth == mirrors.DepthExists {
		if r, err = q.head(ctx); err != nil {
			return policy.Fact{}, err
		}
		if fact, ok := q.present(r); ok && !(isIndex(fact.MediaType) && q.readsIndexes()) {
			return fact, nil
		}
	}
	if r, err = q.get(ctx, r); err != nil {
		return policy.Fact{}, err
	}
	return q.judge(ctx, r)
}

func (q *question) readsIndexes() bool {
	return q.endpoint.way.options.Platforms != nil || q.target.depth > mirrors.DepthExists
}

// head asks by HEAD. Nodes do not, so that a bad answer is none at all, for GET to
// settle. Only what says that GET would not be answered either is an error.
func (q *question) head(ctx context.Context) (response, error) {
	r, err := q.ask(ctx, http.MethodHead)
	var f *failure
	if errors.As(err, &f) && isInconclusive(http.MethodHead, f) {
		return response{}, nil
	}
	return r, err
}

// present returns the Fact if r, the answer to a HEAD, shows the image beyond doubt.
func (q *question) present(r response) (policy.Fact, bool) {
	mediaType := mediaTypeOf(r.header)
	digest := validDigest(r.header.Get("Docker-Content-Digest"))
	if r.status != http.StatusOK || digest == "" || !slices.Contains(manifestTypes, mediaType) {
		return policy.Fact{}, false
	}
	if q.target.digest != "" && digest != q.target.digest {
		return policy.Fact{}, false
	}
	return policy.Fact{Presence: policy.Present, Digest: digest.String(), MediaType: mediaType, Time: time.Now()}, true
}

// get asks as a node does: with a token for this repository alone if the one in
// use was not good enough.
func (q *question) get(ctx context.Context, head response) (response, error) {
	r := head
	if r.status != http.StatusUnauthorized {
		var err error
		if r, err = q.ask(ctx, http.MethodGet); err != nil || r.status != http.StatusUnauthorized {
			return r, err
		}
	}
	before := q.grant
	if err := q.reauthorize(ctx, wantedScope(r.header)); err != nil {
		return r, err
	}
	r, err := q.ask(ctx, http.MethodGet)
	if err == nil && r.status != http.StatusUnauthorized && before != nil && before.shared() {
		q.wallet().dontShare()
	}
	return r, err
}

// judge says what an answer to a GET means for a node.
func (q *question) judge(ctx context.Context, r response) (policy.Fact, error) {
	host := q.endpoint.api
	switch {
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return policy.Fact{}, q.denied(r)
	case r.status != http.StatusOK:
		return policy.Fact{}, statusFailure(host, r)
	case r.cut:
		// containers/image fails while it reads, so that it goes on to the next place.
		return policy.Fact{}, unreachable("%s answers with more than 4 MiB, which nodes take for no manifest", host)
	}
	mediaType, ok := q.manifestType(r)
	if !ok {
		return policy.Fact{}, mismatch("%s answers 200 with %s, which is no image manifest; check what serves this path",
			host, quote(describeType(r.header)))
	}
	if !q.target.matches(r.body) {
		return policy.Fact{}, mismatch("%s serves other content under this digest (%s); nodes would stop there",
			host, sum(q.target.digest.Algorithm(), r.body))
	}
	fact := policy.Fact{
		Presence:  policy.Present,
		Digest:    string(sum(q.algorithm(), r.body)),
		MediaType: mediaType,
		Time:      time.Now(),
	}
	var err error
	switch {
	case isIndex(mediaType) && q.readsIndexes():
		err = q.contents(ctx, &fact, r.body)
	case !isIndex(mediaType) && q.target.depth > mirrors.DepthExists:
		err = q.single(ctx, &fact, r.body)
	}
	if err != nil {
		return policy.Fact{}, err
	}
	return fact, nil
}

// denied says what it means that the registry refuses r. It is no proof if what it
// was shown is less than what nodes show.
func (q *question) denied(r response) *failure {
	if q.grant != nil && q.grant.withheld != nil {
		return q.grant.withheld
	}
	return denied(q.endpoint.api, r, q.credential)
}

// manifestType returns the type as which nodes would read r. They go by the
// Content-Type; whatever they do not know they read as schema 1 (containers/image
// internal/manifest, NormalizedMIMEType).
func (q *question) manifestType(r response) (string, bool) {
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

// authorize gets a token where the registry wants one.
func (q *question) authorize(ctx context.Context) error {
	if !q.wallet().needed(q.session) {
		q.settled = true
		return nil
	}
	var err error
	q.grant, q.settled, err = q.wallet().token(ctx, q.session, q.target.scope())
	return err
}

// reauthorize gets a token for this repository alone, unless the one that was
// refused is that already. A scope that the registry said is missing is added.
func (q *question) reauthorize(ctx context.Context, missing string) error {
	if q.grant == nil || q.settled && missing == "" {
		return nil
	}
	var err error
	q.grant, err = q.wallet().alone(ctx, q.session, q.target.scope(), missing)
	q.settled = true
	return err
}

func (q *question) wallet() *wallet { return q.endpoint.wallet(q.credential) }

// authorization returns the header to send, "" for none. Without a challenge in
// the answer to GET /v2/ nodes send nothing, and so there is nothing here.
func (q *question) authorization() string {
	switch {
	case q.grant != nil:
		return "Bearer " + q.grant.value
	case q.session.challenge.scheme == "basic":
		// Nodes without a credential send an empty one, which registries take for none.
		return q.credential.basic()
	default:
		return ""
	}
}

const (
	// maxAgain is how often a question is put again that a registry could not answer
	// at the moment. Nodes do so 4 times, for 429 only.
	maxAgain   = 3
	firstPause = 100 * time.Millisecond
)

// ask puts the question by method, at the registry's pace, and again if that may
// help. An error is a *failure or the end of ctx.
func (q *question) ask(ctx context.Context, method string) (response, error) {
	for attempt := 0; ; attempt++ {
		r, err := q.once(ctx, method)
		var f *failure
		if !errors.As(err, &f) || !f.again || attempt == maxAgain || isInconclusive(method, f) {
			return r, err
		}
		if q.endpoint.breaker.open() != nil {
			return r, err
		}
		if rest := pause(attempt, f); rest > patience || sleep(ctx, rest) != nil {
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

func (q *question) once(ctx context.Context, method string) (response, error) {
	e := q.endpoint
	if cause := e.breaker.open(); cause != nil {
		return response{}, cause
	}
	turn, err := e.pace.acquire(ctx, e.api)
	if err != nil {
		return response{}, err
	}
	r, err := e.way.ask(ctx, q.request(method))
	f := q.failed(ctx, r, err)
	switch {
	case f == nil && err != nil: // the caller has left
		e.pace.leave()
		return r, err
	case f == nil:
		e.pace.release(turn, fine, 0)
		e.breaker.answered()
		return r, nil
	case isInconclusive(method, f):
		e.pace.leave()
		return r, f
	}
	e.pace.release(turn, f.load, f.after)
	if f.load != throttled {
		e.down(f, false)
	}
	return r, f
}

func (q *question) request(method string) request {
	e := q.endpoint
	if q.blob != "" {
		r := request{
			method:        method,
			url:           e.url(q.session, q.target.repository, "blobs", q.blob.String()),
			authorization: q.authorization(),
			firstByte:     method == http.MethodGet && !q.whole,
		}
		if q.whole {
			r.limit = maxConfig
		}
		return r
	}
	return request{
		method:        method,
		url:           e.url(q.session, q.target.repository, "manifests", q.target.identifier()),
		authorization: q.authorization(),
		accept:        manifestTypes,
		limit:         maxManifest,
	}
}

// failed returns why there is nothing to judge, nil if there is or if the caller
// has left.
func (q *question) failed(ctx context.Context, r response, err error) *failure {
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return connectionFailure(q.endpoint.api, err, q.endpoint.way.options.patience(err))
	}
	if f := statusFailure(q.endpoint.api, r); f.load != fine {
		return f
	}
	return nil
}

// algorithm is that of the digest asked for, or the usual one.
func (q *question) algorithm() digest.Algorithm {
	if q.target.digest != "" {
		return q.target.digest.Algorithm()
	}
	return digest.Canonical
}
