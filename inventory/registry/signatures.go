package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/containers/image/v5/manifest"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
)

// Nodes read an attachment to its end, whatever its size. No signer makes one beyond these bounds, and
// it is not read here.
const (
	// maxLayers bounds the layers of an attachment: each signature, and each attestation that
	// was put there, is one.
	maxLayers = 32
	// maxAttachment bounds the kept part of an attachment, in bytes. A signature with its certificates
	// and the word of a log has some 10 kB.
	maxAttachment = 256 << 10
)

// signatures reads the signatures under the tag of target as nodes do (containers/image
// docker/docker_image_src.go, appendSignaturesFromSigstoreAttachments): by GET, the manifest and
// then each of its layers. Only if the registry says explicitly that there is no such
// manifest do nodes continue without; everything else that is not an attachment fails the pull.
func (l *lookup) signatures(ctx context.Context) (policy.Fact, error) {
	host := l.API()
	r, err := l.counted(l.Get(ctx, l.manifest(), wire.Response{}))
	if err != nil {
		return policy.Fact{}, err
	}
	refused := l.Refused(r)
	switch {
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		return policy.Fact{}, refused
	case r.Status >= 400 && r.Status < 500 && saysUnknown(r):
		return policy.Fact{}, l.noSignature(r)
	case r.Status == http.StatusNotFound:
		f := wire.Unreachable("%s answers 404%s, which does not tell nodes that there is no signature; the pull fails", host, r.Says())
		f.NoRepository = r.SaysNoRepository()
		return policy.Fact{}, f
	case refused != nil:
		return policy.Fact{}, refused
	case r.Cut:
		return policy.Fact{}, mismatch("%s serves more than 4 MiB where signatures should be, which nodes do not accept", host)
	}
	if mediaType := mediaTypeOf(r.Header); mediaType != imagespec.MediaTypeImageManifest {
		return policy.Fact{}, mismatch("%s serves %s where signatures should be, for which nodes say: unexpected MIME type", host, wire.Quote(describeType(r.Header)))
	}
	attachment, err := manifest.OCI1FromManifest(r.Body)
	if err != nil {
		return policy.Fact{}, mismatch("%s serves, where signatures should be, a manifest that nodes cannot read", host)
	}
	fact := policy.Fact{
		Presence: policy.Present, Digest: l.target.sum(r.Body).String(), MediaType: imagespec.MediaTypeImageManifest, Time: time.Now(),
	}
	fact.Signatures, err = l.readLayers(ctx, attachment.Layers, fact.Time)
	if err != nil {
		return policy.Fact{}, err
	}
	return fact, nil
}

func (l *lookup) noSignature(r wire.Response) *wire.Failure {
	f := l.StatusFailure(r)
	f.Presence, f.Detail = policy.Absent, fmt.Sprintf("%s answers %d: it holds no signature%s", l.API(), r.Status, r.Says())
	return f
}

// saysUnknown reports whether nodes read r, an answer of 4xx, as that there is no such manifest
// (docker/docker_client.go, isManifestUnknownError; docker/distribution_error.go).
func saysUnknown(r wire.Response) bool {
	var detailed struct {
		Details string `json:"details"`
	}
	if json.Unmarshal(r.Body, &detailed) == nil && detailed.Details != "" {
		return isNotFound(detailed.Details)
	}
	first, ok := r.FirstError()
	switch {
	case !ok && r.Cut && !bytes.HasPrefix(bytes.TrimSpace(r.Body), []byte("<")): // its end may say more; that of a page does not
		return false
	case !ok:
		return r.Status == http.StatusNotFound
	case first.Code == ggcr.ManifestUnknownErrorCode:
		return true
	case knownCodes[first.Code]:
		return false
	default: // which nodes read as UNKNOWN
		return isNotFound(first.Message)
	}
}

func isNotFound(message string) bool { return strings.Contains(strings.ToLower(message), "not found") }

// knownCodes are the error codes that nodes know, but for UNKNOWN and MANIFEST_UNKNOWN
// (docker/distribution registry/api/errcode and registry/api/v2).
var knownCodes = map[ggcr.ErrorCode]bool{
	"UNSUPPORTED": true, "UNAUTHORIZED": true, "DENIED": true, "UNAVAILABLE": true, "TOOMANYREQUESTS": true,
	"DIGEST_INVALID": true, "SIZE_INVALID": true, "NAME_INVALID": true, "TAG_INVALID": true, "NAME_UNKNOWN": true,
	"MANIFEST_INVALID": true, "MANIFEST_UNVERIFIED": true, "MANIFEST_BLOB_UNKNOWN": true, "BLOB_UNKNOWN": true,
	"BLOB_UPLOAD_UNKNOWN": true, "BLOB_UPLOAD_INVALID": true,
}

// readLayers reads the layers of an attachment.
func (l *lookup) readLayers(ctx context.Context, layers []imagespec.Descriptor, now time.Time) (*signing.Signatures, error) {
	if len(layers) > maxLayers {
		return nil, wire.Unreachable("%s serves an attachment of %d layers where signatures should be; more than %d are not read", l.API(), len(layers), maxLayers)
	}
	signatures := &signing.Signatures{Read: now}
	kept := 0
	for _, layer := range layers {
		payload, err := l.readLayer(ctx, layer)
		if err != nil {
			return nil, err
		}
		s := signing.Signature{MediaType: text.OneLine(layer.MediaType, wire.MaxQuote)}
		if s.MediaType == signing.MediaType {
			s.Payload, s.Annotations = payload, map[string]string{}
			for _, key := range []string{signing.SignatureAnnotation, signing.SETAnnotation, signing.CertificateAnnotation, signing.ChainAnnotation} {
				if value, ok := layer.Annotations[key]; ok {
					s.Annotations[key] = strings.Clone(value) // not the whole manifest
					kept += len(value)
				}
			}
			kept += len(payload)
		}
		if kept > maxAttachment {
			return nil, wire.Unreachable("%s serves signatures of more than %d KiB, which are not judged here", l.API(), maxAttachment>>10)
		}
		signatures.All = append(signatures.All, s)
	}
	return signatures, nil
}

// readLayer reads the content of a layer (docker/docker_client.go, getOCIDescriptorContents).
func (l *lookup) readLayer(ctx context.Context, layer imagespec.Descriptor) ([]byte, error) {
	host := l.API()
	if layer.Digest.Validate() != nil {
		return nil, mismatch("%s serves an attachment that names an invalid digest, which nodes do not accept", host)
	}
	if IsElsewhere(layer.URLs) {
		return nil, wire.Unreachable("%s serves an attachment whose content is elsewhere; it is not looked for there", host)
	}
	r, held, err := l.read(ctx, layer.Digest, maxConfig)
	switch {
	case err != nil:
		return nil, err
	case !held:
		return nil, incomplete("%s serves an attachment and lacks its content (%s)", host, text.ShortDigest(layer.Digest.String()))
	case r.Cut:
		return nil, mismatch("%s serves an attachment of more than 4 MiB, which nodes do not read", host)
	case layer.Digest.Algorithm().FromBytes(r.Body) != layer.Digest:
		return nil, mismatch("%s serves other content under the digest of an attachment (%s)", host, text.ShortDigest(layer.Digest.String()))
	}
	return r.Body, nil
}

// referrers asks whether a signature refers to target in a way that nodes do not know: by the
// referrers API or, where the registry has none, the tag that stands in for it (OCI distribution
// specification 1.1). It is Present if there is one, and its Detail then names the kind.
func (l *lookup) referrers(ctx context.Context) (policy.Fact, error) {
	list := wire.Request{Path: "referrers/" + l.target.digest.String(), Accept: []string{string(types.OCIImageIndex)}, Limit: wire.MaxManifest}
	r, err := l.counted(l.GetOnce(ctx, list))
	if err == nil && r.Status != http.StatusOK {
		of := *l
		of.target.digest, of.target.tag = "", strings.Replace(string(l.target.digest), ":", "-", 1)
		r, err = of.counted(of.Get(ctx, of.manifest(), wire.Response{}))
	}
	if err != nil {
		return policy.Fact{}, err
	}
	if r.Status != http.StatusOK {
		return policy.Fact{}, l.StatusFailure(r)
	}
	var index struct {
		Manifests []struct {
			ArtifactType string `json:"artifactType"`
		} `json:"manifests"`
	}
	if json.Unmarshal(r.Body, &index) != nil {
		return policy.Fact{}, wire.Unreachable("%s answers something else where it is asked for referrers", l.API())
	}
	for _, m := range index.Manifests {
		kind := m.ArtifactType
		if strings.HasPrefix(kind, "application/vnd.dev.sigstore.bundle") || strings.HasPrefix(kind, "application/vnd.dev.cosign.") {
			return policy.Fact{Presence: policy.Present, MediaType: string(types.OCIImageIndex), Detail: "a referrer of type " + text.OneLine(kind, wire.MaxQuote), Time: time.Now()}, nil
		}
	}
	return policy.Fact{Presence: policy.Absent, Detail: l.API() + " knows of no signature that refers to it", Time: time.Now()}, nil
}
