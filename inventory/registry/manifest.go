package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
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
	wire.Exchange
	nodes   *nodePlatforms
	configs *configs
	target  target
}

// look finds out what the location has as deeply as it says.
func (l *lookup) look(ctx context.Context) (policy.Fact, error) {
	switch l.target.depth {
	case mirrors.DepthSignatures:
		return l.signatures(ctx)
	case mirrors.DepthReferrers:
		return l.referrers(ctx)
	default:
		return l.answer(ctx)
	}
}

// answer asks by GET, as nodes do, and compares the manifest with its digest: nodes stop at another one, and answers to
// HEAD are not to be relied on. Some registries answer 404, 405 or 501 to it, some leave the digest out, and caches answer
// that they have a manifest, but serve another one.
func (l *lookup) answer(ctx context.Context) (policy.Fact, error) {
	var r wire.Response
	var err error
	if l.asksByHead() {
		if r, err = l.Head(ctx, l.manifest()); err != nil {
			return policy.Fact{}, err
		}
		if fact, ok := l.present(r); ok && (!isIndex(fact.MediaType) || !l.readsIndexes()) {
			return fact, nil
		}
	}
	if r, err = l.counted(l.Get(ctx, l.manifest(), r)); err != nil {
		return policy.Fact{}, err
	}
	return l.judge(ctx, r)
}

// asksByHead reports whether HEAD comes first where only the existence of a manifest matters. The Docker Hub counts each GET
// of a manifest as a pull, and allows few; it does not count HEAD.
func (l *lookup) asksByHead() bool {
	return l.target.depth == mirrors.DepthExists && l.API() == wire.DockerHub
}

func (l *lookup) readsIndexes() bool {
	return l.nodes.read != nil || l.target.depth > mirrors.DepthExists
}

// present returns the Fact if r, the answer to a HEAD, shows the image beyond doubt.
func (l *lookup) present(r wire.Response) (policy.Fact, bool) {
	mediaType := mediaTypeOf(r.Header)
	digest := validDigest(r.Header.Get("Docker-Content-Digest"))
	if r.Status != http.StatusOK || digest == "" || !slices.Contains(manifestTypes, mediaType) {
		return policy.Fact{}, false
	}
	if l.target.digest != "" && digest != l.target.digest {
		return policy.Fact{}, false
	}
	return policy.Fact{Presence: policy.Present, Digest: digest.String(), MediaType: mediaType, Time: time.Now()}, true
}

// judge returns what an answer to a GET means for a node.
func (l *lookup) judge(ctx context.Context, r wire.Response) (policy.Fact, error) {
	host := l.API()
	if f := l.Refused(r); f != nil {
		return policy.Fact{}, f
	}
	if r.Cut { // containers/image fails while it reads, so that it goes on to the next place.
		return policy.Fact{}, wire.Unreachable("%s answers with more than 4 MiB, which nodes do not accept as a manifest", host)
	}
	mediaType, ok := l.manifestType(r)
	if !ok {
		return policy.Fact{}, mismatch("%s answers 200 with %s, which is not an image manifest; check what serves this path",
			host, wire.Quote(describeType(r.Header)))
	}
	served := l.target.sum(r.Body)
	if l.target.digest != "" && served != l.target.digest {
		return policy.Fact{}, mismatch("%s serves other content under this digest (%s); nodes would stop there", host, served)
	}
	fact := policy.Fact{Presence: policy.Present, Digest: served.String(), MediaType: mediaType, Time: time.Now()}
	if !isIndex(mediaType) {
		fact.Instances = []policy.Instance{{Digest: sum(digest.Canonical, r.Body).String()}}
		fact.Size = layersOf(r.Body)
	}
	var err error
	switch {
	case isIndex(mediaType) && l.readsIndexes():
		err = l.checkIndex(ctx, &fact, r.Body)
	case !isIndex(mediaType) && l.target.depth > mirrors.DepthExists:
		err = l.checkImage(ctx, &fact, r.Body)
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
	var f *wire.Failure
	if !errors.As(err, &f) || f.Presence != policy.Denied && f.Presence != policy.Unreachable {
		return err
	}
	open := *f
	open.Presence = policy.Inconclusive
	open.Detail = "the manifest is there, but " + f.Detail
	return &open
}

// manifestType returns the type as which nodes would read r. They go by the Content-Type;
// unknown types are read as schema 1 (containers/image internal/manifest,
// NormalizedMIMEType).
func (l *lookup) manifestType(r wire.Response) (string, bool) {
	var body struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return "", false
	}
	mediaType := mediaTypeOf(r.Header)
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

// maxValues bounds the JSON values of a manifest that is decoded, as an empty entry of a list takes a hundred times its text:
// many manifests are looked at at once. Real images of maxBlobs layers have half as many, as have indexes of 200 images.
const maxValues = 10_000

// counted returns r, the answer to a GET of a manifest, or a failure if too much would become of it once it is decoded. Nodes
// may take it.
func (l *lookup) counted(r wire.Response, err error) (wire.Response, error) {
	if err != nil || r.Status != http.StatusOK || r.Cut || rawjson.Values(r.Body, maxValues+1) <= maxValues || !json.Valid(r.Body) {
		return r, err
	}
	f := wire.Unreachable("%s serves a manifest of more than %s values, which is not looked at", l.API(), text.Number(maxValues))
	f.Presence = policy.Inconclusive
	return r, f
}

// manifest returns the request for the manifest of target.
func (l *lookup) manifest() wire.Request {
	return wire.Request{Path: "manifests/" + l.target.identifier(), Accept: manifestTypes, Limit: wire.MaxManifest}
}

// mismatch is for an answer at which nodes stop.
func mismatch(format string, args ...any) *wire.Failure {
	return &wire.Failure{Presence: policy.Mismatch, Detail: fmt.Sprintf(format, args...)}
}

// incomplete is for a part of an image that is not there.
func incomplete(format string, args ...any) *wire.Failure {
	return &wire.Failure{Presence: policy.Incomplete, Detail: fmt.Sprintf(format, args...)}
}
