package images

import (
	"maps"
	"slices"
	"strings"
)

// dependents are the Holders whose images depend on ImageStreams, whether these are known or not. The zero value has none.
type dependents struct {
	of map[objectKey]map[changedObject]Holder // by stream
	on map[changedObject][]objectKey          // the streams that each depends on
}

// note enters which streams h depends on, instead of what was known of the same object. It returns what that was, and reports whether
// either depends on any.
func (d *dependents) note(o changedObject, h Holder) (old Holder, depend bool) {
	before := d.on[o]
	for _, stream := range before {
		old = d.of[stream][o]
		delete(d.of[stream], o)
		if len(d.of[stream]) == 0 {
			delete(d.of, stream)
		}
	}
	delete(d.on, o)
	for _, r := range h.References {
		stream, ok := r.stream(h.Namespace)
		if !ok || slices.Contains(d.on[o], stream) {
			continue
		}
		if d.of[stream] == nil {
			set(&d.of, stream, map[changedObject]Holder{})
		}
		d.of[stream][o] = h
		set(&d.on, o, append(d.on[o], stream))
	}
	return old, len(before)+len(d.on[o]) > 0
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
