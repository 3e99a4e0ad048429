package copying

import (
	"bytes"
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry"
)

// askSparse asks each mirror that is to get an index without all of its parts whether it takes one, before
// anything is sent. Of one that does not, such jobs fail.
func (c *Copier) askSparse(ctx context.Context, jobs []*Job) {
	if len(c.options.Platforms) == 0 {
		return
	}
	answers := map[string]error{}
	for _, j := range jobs {
		if j.State != Open || !j.image.isSparse() {
			continue
		}
		answer, asked := answers[j.Registry]
		if !asked {
			answer = j.askSparse(ctx)
			answers[j.Registry] = answer
		}
		if answer != nil {
			j.end(Failed, answer)
		}
	}
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
	if err := j.to.pusher.Delete(ctx, ref); err != nil {
		j.note("the mirror keeps a trial of 300 bytes, %s: %s", ref, registry.Reason(err))
	}
	return nil
}
