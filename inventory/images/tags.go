package images

import (
	"maps"
	"slices"
	"strings"
)

// dependents are the Holders whose images depend on ImageStreams, whether these are known or not. The zero value has none.
//
// An object may depend on tens of thousands of streams, and as many objects on one stream: each pair takes a few words, and no time that
// depends on the others.
type dependents struct {
	on map[changedObject]*dependent
	of map[objectKey]*dependence // by stream
}

// A dependent is a Holder, and the streams that it depends on, each once.
type dependent struct {
	changedObject
	references Packed
	on         []dependence
}

// A dependence is that of an object on a stream, in a list of all those on the stream.
type dependence struct {
	*dependent
	stream         objectKey
	previous, next *dependence
}

func (d *dependent) holder() Holder {
	return Holder{d.kind, d.Namespace, d.Name, d.references.References()}
}

// note enters which streams h depends on, instead of what was known of the same object. It returns what that was, and reports whether
// either depends on any.
func (d *dependents) note(o changedObject, h Holder) (old Holder, depend bool) {
	was := d.on[o]
	if was != nil {
		old = was.holder()
		d.remove(was)
	}
	var streams map[objectKey]bool
	for _, r := range h.References {
		if stream, ok := r.stream(h.Namespace); ok {
			set(&streams, stream, true)
		}
	}
	if len(streams) > 0 {
		d.add(&dependent{o, Pack(h.References), make([]dependence, 0, len(streams))}, streams)
	}
	return old, was != nil || len(streams) > 0
}

func (d *dependents) add(now *dependent, streams map[objectKey]bool) {
	set(&d.on, now.changedObject, now)
	for stream := range streams {
		now.on = append(now.on, dependence{dependent: now, stream: stream, next: d.of[stream]})
		first := &now.on[len(now.on)-1]
		if first.next != nil {
			first.next.previous = first
		}
		set(&d.of, stream, first)
	}
}

func (d *dependents) remove(was *dependent) {
	delete(d.on, was.changedObject)
	for _, each := range was.on {
		if each.next != nil {
			each.next.previous = each.previous
		}
		switch {
		case each.previous != nil:
			each.previous.next = each.next
		case each.next != nil:
			d.of[each.stream] = each.next
		default:
			delete(d.of, each.stream)
		}
	}
}

// stream returns the ImageStream that determines the image of r, in an object in a namespace.
func (r Reference) stream(namespace string) (objectKey, bool) {
	if r.Image == "" {
		return streamOf(r.Tag), true
	}
	stream, _, ok := r.Lookup.name(r.Image)
	return objectKey{Namespace: namespace, Name: stream}, ok
}

// streamOf returns the ImageStream of a Reference.Tag.
func streamOf(tag string) objectKey {
	namespace, name, _ := strings.Cut(tag, "/")
	if end := strings.IndexAny(name, ":@"); end >= 0 {
		name = name[:end]
	}
	return objectKey{Namespace: namespace, Name: name}
}

// tags are the images that the tags and digests of ImageStreams stand for, by Reference.Tag. The zero value is empty and ready.
type tags map[objectKey]map[string]string

// put enters those of an ImageStream, instead of what was known of it, and reports whether that makes a difference.
func (t *tags) put(h Holder) bool {
	key := objectKey{Namespace: h.Namespace, Name: h.Name}
	now := tagsOf(h)
	if maps.Equal((*t)[key], now) {
		return false
	}
	if len(now) == 0 {
		delete(*t, key)
	} else {
		set((*map[objectKey]map[string]string)(t), key, now)
	}
	return true
}

// tagsOf returns the images of an ImageStream by their tags and by their digests.
func tagsOf(h Holder) map[string]string {
	all := map[string]string{}
	for _, r := range h.References {
		if r.Tag == "" || r.Image == "" {
			continue
		}
		all[r.Tag] = r.Image
		if _, digest, found := strings.Cut(r.Image, "@"); found {
			all[h.Namespace+"/"+h.Name+"@"+digest] = r.Image
		}
	}
	return all
}

// resolved returns references with the images that tags stand for. References to unknown
// tags are left out: there is nothing that a node could pull.
func (t tags) resolved(references []Reference) []Reference {
	if !slices.ContainsFunc(references, func(r Reference) bool { return r.Image == "" }) {
		return references
	}
	var all []Reference
	for _, r := range references {
		if r.Image == "" {
			r.Image = t[streamOf(r.Tag)][r.Tag]
		}
		if r.Image != "" {
			all = append(all, r)
		}
	}
	return all
}
