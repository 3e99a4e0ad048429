package policy

import (
	"cmp"
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
	byRepository *btree.BTreeG[placed] // nil if there are none
}

// A placed is an image where its repository puts it: short names, and what no node can
// parse, have none and come first.
type placed struct {
	repository string
	image      Image
}

func (a placed) less(b placed) bool {
	return cmp.Or(strings.Compare(a.repository, b.repository), strings.Compare(a.image.Ref, b.image.Ref)) < 0
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
	if x.byRepository == nil {
		return 0
	}
	return x.byRepository.Len()
}

// All returns all images, ordered by repository.
func (x Images) All() iter.Seq[Image] {
	return func(yield func(Image) bool) {
		if x.byRepository != nil {
			x.byRepository.Scan(func(p placed) bool { return yield(p.image) })
		}
	}
}

// touched returns the images whose routes may differ where tables differ by d, each once,
// and others beside them. What no node can parse is always among them: it has no place in
// the order.
func (x Images) touched(d mirrors.Difference) iter.Seq[Image] {
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

// A span is what is ordered from one repository to before another.
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
		// What a scope covers goes on with a path or a port. "0" and ";" are the
		// characters that follow "/" and ":".
		spans = append(spans, span{scope, scope + "\x00"}, span{scope + "/", scope + "0"}, span{scope + ":", scope + ";"})
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
			first = p.repository
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
		if p.repository >= s.to {
			return false
		}
		goOn = yield(p.image)
		return goOn
	})
	return goOn
}

func (x Images) ascend(from string, yield func(placed) bool) {
	if x.byRepository != nil {
		x.byRepository.Ascend(placed{repository: from}, yield)
	}
}

// An ImageIndex is where Images come from that change. To change one costs a time that
// grows with the logarithm of their number, and to take Images none. The zero value is
// empty. It is not safe for concurrent use; the Images that it has returned are.
type ImageIndex struct {
	byRepository *btree.BTreeG[placed]
}

// Put enters img instead of what was known of its reference.
func (x *ImageIndex) Put(img Image) {
	if x.byRepository == nil {
		x.byRepository = btree.NewBTreeGOptions(placed.less, btree.Options{NoLocks: true})
	}
	x.byRepository.Set(place(img))
}

// Delete forgets the image with a reference. It is no error if there is none.
func (x *ImageIndex) Delete(ref string) {
	if x.byRepository != nil {
		x.byRepository.Delete(place(Image{Ref: ref}))
	}
}

// Images returns what there is now.
func (x *ImageIndex) Images() Images {
	if x.byRepository == nil {
		return Images{}
	}
	return Images{x.byRepository.Copy()}
}

func place(img Image) placed {
	repository, _ := mirrors.Repository(img.Ref)
	return placed{repository, img}
}
