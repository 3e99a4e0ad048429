package copying

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
)

// askSparse asks the mirror of j, unless another job has, whether it takes an index without all of its parts, if j is to
// bring it one. If it does not, that is the error.
func (c *Copier) askSparse(ctx context.Context, j *Job) error {
	if len(c.options.Platforms) == 0 || j.image.there || !j.image.isSparse() {
		return nil
	}
	c.mu.Lock()
	ask := c.sparse[j.Registry]
	if ask == nil {
		ask = sync.OnceValue(func() error { return j.askSparse(ctx) })
		c.sparse[j.Registry] = ask
	}
	c.mu.Unlock()
	return ask()
}

// isSparse reports whether m is an index of which not all parts are copied.
func (m *manifest) isSparse() bool {
	if !m.mediaType.IsIndex() {
		return false
	}
	listed, err := v1.ParseIndexManifest(bytes.NewReader(m.raw))
	return err == nil && len(listed.Manifests) > len(m.parts)
}

// sparseTrial is an index of a part that no registry has.
var sparseTrial = []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000001","size":2,"platform":{"architecture":"amd64","os":"linux"}}]}`)

func (j *Job) askSparse(ctx context.Context) error {
	digest, size, err := v1.SHA256(bytes.NewReader(sparseTrial))
	if err != nil || size == 0 {
		return err
	}
	trial := &manifest{digest: digest, mediaType: types.OCIImageIndex, raw: sparseTrial}
	ref := j.to.repo.Digest(digest.String())
	if err := j.put(ctx, trial, ref); err != nil {
		return fmt.Errorf("%s does not take an index without all of its parts, which --platforms asks for: %s", j.Registry, registry.Reason(err))
	}
	if err := j.to.oras.Delete(ctx, trial.descriptor()); err != nil {
		j.note("the mirror keeps a trial of 300 bytes, %s: %s", ref, registry.Reason(err))
	}
	return nil
}
