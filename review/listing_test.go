package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
)

// TestStreamInventory: what is streamed is the document, to the byte, and goes out in small pieces.
func TestStreamInventory(t *testing.T) {
	for n, release := range map[int]*v1alpha1.NextRelease{0: nil, 1: nil, 3: {Updates: "desired", Review: &v1alpha1.ReleaseReview{Notes: []string{}, Version: "4.21.3\u202e"}}, 5000: nil} {
		var images []policy.Image
		for i := range n {
			images = append(images, policy.Image{Ref: fmt.Sprintf("quay.io/shop/app-%d\u202e:v1", i), Consumers: []policy.Consumer{{Kind: "Pod", Namespace: "shop", Name: "a"}}})
		}
		var want bytes.Buffer
		doc := InventoryDocument(images)
		doc.Release = release
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want.Write(append(text.JSON(data), '\n'))
		got := new(pieces)
		if err := StreamInventory(got, release, images); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("%d images: %.300s\nwant %.300s", n, got, &want)
		}
		if got.largest > 64<<10 {
			t.Errorf("%d images: a piece of %d bytes", n, got.largest)
		}
	}
}

// pieces is a buffer that knows its largest write.
type pieces struct {
	bytes.Buffer
	largest int
}

// Write implements io.Writer.
func (p *pieces) Write(data []byte) (int, error) {
	p.largest = max(p.largest, len(data))
	return p.Buffer.Write(data)
}
