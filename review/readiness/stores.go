package readiness

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"golang.org/x/sync/errgroup"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/release"
)

// Stores ask signature stores as CVO does, with the cluster's proxy.
type Stores struct {
	// Files reads files with certificates by roots.
	Files func(roots *x509.CertPool) *registry.Files
	// Roots are the CAs that CVO trusts, at each store: it does not read those that ClusterVersion names beside stores.
	Roots *x509.CertPool
}

// A store is the address of a signature store that CVO would ask.
type store string

// String returns the address as it may be shown.
func (s store) String() string {
	return text.Line(text.Cut(text.WithoutCredentials(string(s)), maxShown))
}

// storeKey begins the names of the addresses of stores in ConfigMap objects.VerificationName.
const storeKey = "store-"

// namesNoStore reports whether ClusterVersion has an empty list of stores, with which CVO asks none and ends.
func namesNoStore(v *configv1.ClusterVersion) bool {
	return v != nil && v.Spec.SignatureStores != nil && len(v.Spec.SignatureStores) == 0
}

// stores are those that CVO would ask: its own, unless ClusterVersion names others, or an empty list of them (cluster-version-operator,
// pkg/customsignaturestore).
func (j *judging) stores() []store {
	if v := j.through.Version; v != nil && v.Spec.SignatureStores != nil {
		return convert.Each(v.Spec.SignatureStores, func(s configv1.SignatureStore) store { return store(s.URL) })
	}
	var stores []store
	if cm := j.config.Verification; cm != nil {
		for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
			if strings.HasPrefix(key, storeKey) {
				stores = append(stores, store(cm.Data[key]))
			}
		}
	}
	return stores
}

const (
	// maxStores is how many a ClusterVersion may name, and how many of ConfigMap release-verification are asked.
	maxStores = 32
	// storesAtOnce is how many are asked at a time: CVO asks all, seldom more than two.
	storesAtOnce = 8
	// storeTimeout bounds all requests to one of them, of nine files at most.
	storeTimeout = 30 * time.Second
)

// ask asks stores for what v misses, and reports whether one of them may have more than was found out.
func (j *judging) ask(ctx context.Context, stores []store, v *verification) (unknown bool) {
	asked := stores[:min(len(stores), maxStores)]
	answers := make([]kept, len(asked))
	var group errgroup.Group
	group.SetLimit(storesAtOnce)
	for i, s := range asked {
		group.Go(func() error {
			answers[i] = j.askStore(ctx, s, *v)
			return nil
		})
	}
	_ = group.Wait() // its functions return none
	for i, a := range answers {
		if a.err != nil {
			unknown = true
			v.wrong = append(v.wrong, asked[i].String()+": "+text.Line(text.Cut(a.err.Error(), maxReason)))
		}
		for _, s := range a.signatures {
			if v.take(s.at, s.data) {
				return false
			}
		}
		if a.err == nil && len(a.signatures) == 0 {
			v.wrong = append(v.wrong, asked[i].String()+": it has none")
		}
	}
	if n := len(stores) - len(asked); n > 0 {
		unknown = true
		v.wrong = append(v.wrong, fmt.Sprintf("%s more, which no cluster has: not asked", text.Count(n, "signature store")))
	}
	return unknown
}

// A kept holds the signatures of a store.
type kept struct {
	signatures []found
	err        error
}

// A found signature is one of a store.
type found struct {
	at   string
	data []byte
}

// askStore asks a store until it has what v misses.
func (j *judging) askStore(ctx context.Context, s store, v verification) kept {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	files := j.Stores.Files(j.Stores.Roots)
	defer files.Close()
	v.by, v.wrong = nil, nil // this is a copy; only its answer counts
	var a kept
	a.err = release.SignatureStore{URL: string(s), Get: files.Get}.Signatures(ctx, v.digest, func(at string, signature []byte) bool {
		a.signatures = append(a.signatures, found{text.Line(text.Cut(at, maxReason)), signature})
		return v.take(at, signature)
	})
	if errors.Is(a.err, registry.ErrUntrusted) {
		a.err = fmt.Errorf("%w; CVO trusts the CA that spec.trustedCA of Proxy cluster names, and does not read the one beside a store", a.err)
	}
	return a
}

// storesSaid sums up the answers of stores without the signature.
func storesSaid(n int, unknown bool) string {
	switch {
	case unknown:
		return "whether a signature store has one could not be determined"
	case n == 1:
		return "nor has the signature store"
	default:
		return fmt.Sprintf("nor has any of %d signature stores", n)
	}
}
