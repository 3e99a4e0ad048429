package truth

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/test/registries"
)

// A corpus is a distribution registry that holds one image in every condition, a
// repository for each. The hosts of all scenarios serve from it.
type corpus struct {
	addr string
	// single and index are the digests of the image and of the index that
	// references name.
	single, index string
	// parts are the digests of the index's parts by architecture.
	parts map[string]string
}

// tags are those that references use; a reference without one means "latest".
var tags = []string{"v1", "latest"}

// The repositories of a corpus.
const (
	wholeImage   = "whole-image"
	wholeIndex   = "whole-index"
	hollowImage  = "hollow-image"  // lacks its layer
	foreignIndex = "foreign-index" // lists no architecture that a node has
	otherImage   = "other-image"
	partOfIndex  = "part-of-index" // the index's part for amd64 alone
	smallIndex   = "small-index"   // an index of that part
	nothing      = "nothing"       // nothing is pushed there
)

// An oddIndex is an index of other parts than the one that references name, so it is found
// only by tag.
type oddIndex struct {
	repository string
	platforms  []string
	lost       int // the missing part, -1 for none
}

var oddIndexes = map[state]oddIndex{
	emptyOne:  {"empty-index", nil, -1},
	noWindows: {"windows-index", []string{"linux/amd64", "linux/arm64", "windows/amd64"}, 2},
	noVariant: {"variant-index", []string{"linux/amd64/v3", "linux/amd64", "linux/arm64"}, 0},
	unnamed:   {"unnamed-index", []string{"linux/s390x", "any"}, 1},
	crowded:   {"crowded-index", append(others(64), "linux/amd64", "linux/arm64"), 65},
}

// others returns n platforms that no node has.
func others(n int) []string {
	var platforms []string
	for i := range n {
		platforms = append(platforms, fmt.Sprint("linux/other", i))
	}
	return platforms
}

// sparseIndex is a repository with the index, but not with its part for arch.
func sparseIndex(arch string) string { return "sparse-index-" + arch }

// hollowIndex is a repository with the index, whose part for arch lacks its layer.
func hollowIndex(arch string) string { return "hollow-index-" + arch }

func newCorpus(t *testing.T) *corpus {
	t.Helper()
	c := &corpus{addr: registries.Run(t).Addr}
	image := must(registries.Image("app"))(t)
	index := must(registries.Index("app"))(t)
	c.single, c.index = must(image.Digest())(t).String(), must(index.Digest())(t).String()
	c.push(t, wholeImage, image)
	c.push(t, hollowImage, image)
	c.push(t, otherImage, must(registries.Image("other"))(t))
	c.push(t, foreignIndex, foreign(t))
	for _, repository := range []string{wholeIndex, sparseIndex("amd64"), sparseIndex("arm64"), hollowIndex("amd64"), hollowIndex("arm64")} {
		c.push(t, repository, index)
	}
	c.dropLayer(t, hollowImage, image)
	part := must(index.Image(must(index.IndexManifest())(t).Manifests[0].Digest))(t)
	c.push(t, partOfIndex, part)
	c.push(t, smallIndex, indexOf(part, "amd64"))
	for _, odd := range oddIndexes {
		index := must(registries.IndexOf("app", odd.platforms...))(t)
		c.push(t, odd.repository, index)
		if odd.lost >= 0 {
			c.drop(t, odd.repository, "manifests", must(index.IndexManifest())(t).Manifests[odd.lost].Digest.String())
		}
	}
	c.parts = map[string]string{}
	for _, child := range must(index.IndexManifest())(t).Manifests {
		c.parts[child.Platform.Architecture] = child.Digest.String()
		c.drop(t, sparseIndex(child.Platform.Architecture), "manifests", child.Digest.String())
		c.dropLayer(t, hollowIndex(child.Platform.Architecture), must(index.Image(child.Digest))(t))
	}
	return c
}

// dropLayer removes the first layer of an image from a repository.
func (c *corpus) dropLayer(t *testing.T, repository string, image v1.Image) {
	t.Helper()
	layers := must(image.Layers())(t)
	c.drop(t, repository, "blobs", must(layers[0].Digest())(t).String())
}

// must returns the first of two results, and panics on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func foreign(t *testing.T) v1.ImageIndex {
	return indexOf(must(registries.Image("app s390x"))(t), "s390x")
}

func indexOf(image v1.Image, arch string) v1.ImageIndex {
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add:        image,
		Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
	})
}

// push pushes a v1.Image or a v1.ImageIndex under all tags of a repository.
func (c *corpus) push(t *testing.T, repository string, content remote.Taggable) {
	t.Helper()
	for _, tag := range tags {
		ref := must(name.NewTag(c.addr+"/"+repository+":"+tag, name.Insecure))(t)
		if err := remote.Push(ref, content); err != nil {
			t.Fatal(err)
		}
	}
}

// drop removes a part from a repository.
func (c *corpus) drop(t *testing.T, repository, kind, digest string) {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodDelete, fmt.Sprintf("http://%s/v2/%s/%s/%s", c.addr, repository, kind, digest), nil))(t)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("deleting %s %s of %s: %s", kind, digest, repository, resp.Status)
	}
}
