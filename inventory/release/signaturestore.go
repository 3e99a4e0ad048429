package release

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
)

// A SignatureStore is a server with GPG signatures of release images: those of a digest are the files
// sha256=HEX/signature-1, signature-2 and so on below its URL (containers/image, docs/signature-protocols.md).
type SignatureStore struct {
	URL string
	// Get reads a file: registry.Files.Get.
	Get func(ctx context.Context, address string, limit int64) (status int, body []byte, cut bool, err error)
}

// Signatures hands the signatures of a digest to take, with the addresses that they are read from, until take has enough.
// It asks for as many as CVO does, and in the same way (library-go, pkg/verify/store/sigstore). Without an error, take was given all
// that the store has; with one, there may be more.
func (s SignatureStore) Signatures(ctx context.Context, digest string, take func(address string, signature []byte) (enough bool)) error {
	base, err := s.base(digest)
	if err != nil {
		return err
	}
	var missed error
	for number := 1; number <= maxSignatures; number++ {
		address := base + strconv.Itoa(number)
		status, body, cut, err := s.Get(ctx, address, MaxSignature)
		switch {
		case ctx.Err() != nil:
			return errors.New("it did not answer in time")
		case errors.Is(err, registry.ErrUntrusted):
			return err
		case err != nil:
			return errors.New(registry.Reason(err)) // as CVO would, but that goes on to the next, for minutes
		case status == http.StatusNotFound:
			return missed
		case status < http.StatusOK || status >= http.StatusMultipleChoices:
			missed = fmt.Errorf("signature-%d: it answers %d", number, status)
		case cut:
			missed = fmt.Errorf("signature-%d: it has more than %d KiB, which no signature has", number, MaxSignature>>10)
		case len(body) > 0 && take(address, body):
			return nil
		}
	}
	return missed
}

// MaxSignature bounds a signature, as containers/image and CVO do (library-go, pkg/verify/store/sigstore). maxSignatures is how
// many CVO asks a store for.
const (
	MaxSignature  = 50 << 10
	maxSignatures = 9
)

// base returns the address of signatures without their number.
func (s SignatureStore) base(digest string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(s.URL))
	switch {
	case err != nil || u.Scheme == "":
		return "", errors.New("its address is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("CVO knows no stores by %s", text.Line(text.Cut(u.Scheme, maxShown)))
	case u.Host == "":
		return "", errors.New("its address names no host")
	case u.User != nil:
		return "", errors.New("its address has credentials in it, which are not sent from here")
	}
	u.Path = path.Join("/", u.Path, strings.Replace(digest, ":", "=", 1), "signature-")
	u.RawPath = ""
	return u.String(), nil
}
