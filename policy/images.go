package policy

import (
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// Images are the images that a cluster depends on, each reference once, in an order that
// lets a plan look only at those below a scope. The value does not change: it is shared
// between those who read it. The zero value holds none.
type Images struct {
	ordered *btree.BTreeG[placed] // nil if there are none
	// unordered has every image looked at, for the tests' sake.
	unordered bool
}

// A placed is an image where its repository puts it.
type placed struct {
	// key begins with the repository as scopes are compared with it. It is the reference
	// itself, mostly. It is "" for short names and for what no node can parse, which come
	// first.
	key   string
	image Image
}

func place(img Image) placed {
	repository, ok := mirrors.Repository(img.Ref)
	switch {
	case !ok:
		return placed{"", img}
	case strings.HasPrefix(img.Ref, repository):
		return placed{img.Ref, img}
	default: // index.docker.io/nginx
		return placed{repository + ":" + img.Ref, img}
	}
}

func (a placed) less(b placed) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return a.image.Ref < b.image.Ref
}

// NewImages returns Images that hold images. Of one reference the last one counts.
func NewImages(images ...Image) Images {
	var x ImageIndex
	for _, img := range images {
		x.Put(img)
	}
	return x.Images()
}

// Len returns the number of images.
func (x Images) Len() int {
	if x.ordered == nil {
		return 0
	}
	return x.ordered.Len()
}

// All returns all images: those without a registry in their names first, then all others by
// reference, but for those that are written in an unusual way.
func (x Images) All() iter.Seq[Image] {
	return func(yield func(Image) bool) {
		if x.ordered != nil {
			x.ordered.Scan(func(p placed) bool { return yield(p.image) })
		}
	}
}

// ByReference returns all images, sorted by reference.
func (x Images) ByReference() []Image {
	images := slices.AppendSeq(make([]Image, 0, x.Len()), x.All())
	slices.SortFunc(images, func(a, b Image) int { return strings.Compare(a.Ref, b.Ref) })
	return images
}

// touched returns the images whose routes may differ where those of two tables differ by d, each once,
// and others beside them. What no node can parse is always among them: it has no place in
// the order.
func (x Images) touched(d mirrors.ChangedScopes) iter.Seq[Image] {
	if d.Everything || x.unordered {
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

// A span is what is ordered from one key to before another.
type span struct{ from, to string }

// spans returns where in the order the images are that scopes cover, and those that have no
// place in it.
func (x Images) spans(scopes []string) []span {
	spans := []span{{"", "\x00"}}
	for _, scope := range scopes {
		if suffix, ok := strings.CutPrefix(scope, "*"); ok {
			spans = append(spans, x.hosts(suffix)...)
			continue
		}
		// What a scope covers goes on with a path, a port or tag, or a digest. "0", ";"
		// and "A" are the characters that follow "/", ":" and "@".
		spans = append(spans, span{scope, scope + "\x00"}, span{scope + "/", scope + "0"}, span{scope + ":", scope + ";"}, span{scope + "@", scope + "A"})
	}
	return spans
}

// hosts returns where the images of hosts are that have part in their names. It goes from
// host to host.
func (x Images) hosts(part string) []span {
	var spans []span
	for from := "\x00"; ; {
		var first string
		x.ascend(from, func(p placed) bool {
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

// joined returns spans in order, with those made one that overlap.
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

// in yields the images in s, and reports whether it is to go on.
func (x Images) in(s span, yield func(Image) bool) bool {
	goOn := true
	x.ascend(s.from, func(p placed) bool {
		if p.key >= s.to {
			return false
		}
		goOn = yield(p.image)
		return goOn
	})
	return goOn
}

func (x Images) ascend(from string, yield func(placed) bool) {
	if x.ordered != nil {
		x.ordered.Ascend(placed{key: from}, yield)
	}
}

// An ImageIndex is where Images come from that change. To change one costs a time that
// grows with the logarithm of their number, and to take Images none. The zero value is
// empty. It is not safe for concurrent use; the Images that it has returned are.
type ImageIndex struct {
	ordered *btree.BTreeG[placed]
}

// Put enters img instead of what was known of its reference.
func (x *ImageIndex) Put(img Image) {
	if x.ordered == nil {
		x.ordered = btree.NewBTreeGOptions(placed.less, btree.Options{NoLocks: true})
	}
	x.ordered.Set(place(img))
}

// Delete forgets the image with a reference. It is no error if there is none.
func (x *ImageIndex) Delete(ref string) {
	if x.ordered != nil {
		x.ordered.Delete(place(Image{Ref: ref}))
	}
}

// Images returns what there is now.
func (x *ImageIndex) Images() Images {
	if x.ordered == nil {
		return Images{}
	}
	return Images{ordered: x.ordered.Copy()}
}
