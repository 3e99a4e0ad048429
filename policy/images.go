package policy

import (
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Images are the images that a cluster depends on, each reference once, in an order that
// lets a plan look only at those below a scope. They are immutable, and may be shared. The
// zero value holds none.
type Images struct {
	Ordered *btree.BTreeG[keyed] // nil if there are none
	others  int                  // how many of them nodes are not all that pull
}

// A keyed image is one with its key in the order.
type keyed struct {
	// key begins with the repository, in the form that is compared with scopes. It is mostly
	// the reference itself. It is "" for short names and for what no node can parse; those
	// come first.
	key   string
	image Image
	other bool // whether nodes are not all that pull it
}

func withKey(img Image) keyed {
	k := keyed{image: img, other: hasOtherPullers(img)}
	repository, ok := mirrors.Repository(img.Ref)
	switch {
	case !ok:
	case strings.HasPrefix(img.Ref, repository):
		k.key = img.Ref
	default: // index.docker.io/nginx
		k.key = repository + ":" + img.Ref
	}
	return k
}

func (a keyed) less(b keyed) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return a.image.Ref < b.image.Ref
}

// NewImages returns Images that hold images. If a reference occurs twice, the last one counts.
func NewImages(images ...Image) Images {
	var x ImageIndex
	for _, img := range images {
		x.Put(img)
	}
	return x.Images()
}

// Len returns the number of images.
func (x Images) Len() int {
	if x.Ordered == nil {
		return 0
	}
	return x.Ordered.Len()
}

// HasOtherPullers reports whether something other than nodes pulls one of the images.
func (x Images) HasOtherPullers() bool { return x.others > 0 }

// All returns all images: short names first, then the others, mostly sorted by reference.
// See ByReference for those that are to be shown.
func (x Images) All() iter.Seq[Image] {
	return func(yield func(Image) bool) {
		if x.Ordered != nil {
			x.Ordered.Scan(func(p keyed) bool { return yield(p.image) })
		}
	}
}

// With returns x with one more image.
func (x Images) With(img Image) Images {
	index := ImageIndex{others: x.others}
	if x.Ordered != nil {
		index.Ordered = x.Ordered.Copy()
	}
	index.Put(img)
	return index.Images()
}

// ByReference returns all images, sorted by reference.
func (x Images) ByReference() []Image {
	images := slices.AppendSeq(make([]Image, 0, x.Len()), x.All())
	slices.SortFunc(images, func(a, b Image) int { return strings.Compare(a.Ref, b.Ref) })
	return images
}

// Touched returns, each once, at least the images whose routes may differ between two tables
// that differ by d. References that no node can parse are always among them, as they have no key.
func (x Images) Touched(d mirrors.ChangedScopes) iter.Seq[Image] {
	if d.Everything {
		return x.All()
	}
	return func(yield func(Image) bool) {
		for _, s := range joined(x.spans(d.Scopes)) {
			if !x.in(s, yield) {
				return
			}
		}
	}
}

// A span is a range of keys: from is the first in it, to the first after it.
type span struct{ from, to string }

// spans returns the ranges of the images that scopes cover, and of those without a key.
func (x Images) spans(scopes []string) []span {
	spans := []span{{"", "\x00"}}
	for _, scope := range scopes {
		if suffix, ok := strings.CutPrefix(scope, "*"); ok {
			spans = append(spans, x.hosts(suffix)...)
			continue
		}
		// A covered name continues the scope with a path, a port or tag, or a digest. "0", ";" and "A"
		// are the characters that follow "/", ":" and "@".
		spans = append(spans, span{scope, scope + "\x00"}, span{scope + "/", scope + "0"}, span{scope + ":", scope + ";"}, span{scope + "@", scope + "A"})
	}
	return spans
}

// hosts returns the ranges of all hosts whose names contain part. It takes one step for each
// host in the order.
func (x Images) hosts(part string) []span {
	var spans []span
	for from := "\x00"; ; {
		var first string
		x.ascend(from, func(p keyed) bool {
			first = p.key
			return false
		})
		if first == "" {
			return spans
		}
		host, _, _ := strings.Cut(first, "/")
		from = host + "0"
		if strings.Contains(host, part) {
			spans = append(spans, span{host + "/", from})
		}
	}
}

// joined sorts spans, and merges those that overlap.
func joined(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return strings.Compare(a.from, b.from) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.from < out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// in yields the images in s, and reports whether to go on.
func (x Images) in(s span, yield func(Image) bool) bool {
	goOn := true
	x.ascend(s.from, func(p keyed) bool {
		if p.key >= s.to {
			return false
		}
		goOn = yield(p.image)
		return goOn
	})
	return goOn
}

func (x Images) ascend(from string, yield func(keyed) bool) {
	if x.Ordered != nil {
		x.Ordered.Ascend(keyed{key: from}, yield)
	}
}

// An ImageIndex is a mutable collection of images. A change takes time logarithmic in their
// number; Images takes a snapshot in constant time. The zero value is empty. It is not safe
// for concurrent use; the Images that it has returned are.
type ImageIndex struct {
	Ordered *btree.BTreeG[keyed]
	others  int
}

// Put adds img, or replaces the image with the same reference.
func (x *ImageIndex) Put(img Image) {
	if x.Ordered == nil {
		x.Ordered = btree.NewBTreeGOptions(keyed.less, btree.Options{NoLocks: true})
	}
	k := withKey(img)
	was, _ := x.Ordered.Set(k)
	x.others += Bit(k.other) - Bit(was.other)
}

// Delete removes the image with a reference, if there is one.
func (x *ImageIndex) Delete(ref string) {
	if x.Ordered != nil {
		was, _ := x.Ordered.Delete(withKey(Image{Ref: ref}))
		x.others -= Bit(was.other)
	}
}

// Images returns the images as they are now.
func (x *ImageIndex) Images() Images {
	if x.Ordered == nil {
		return Images{}
	}
	return Images{x.Ordered.Copy(), x.others}
}

// Find returns the image with a reference; one without consumers if there is none.
func (x Images) Find(ref string) Image {
	if x.Ordered != nil {
		if found, ok := x.Ordered.Get(withKey(Image{Ref: ref})); ok {
			return found.image
		}
	}
	return Image{Ref: ref}
}

// Bit returns 1 for true and 0 for false.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
