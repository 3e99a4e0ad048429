package images

import (
	"maps"
	"slices"
	"strings"
)

// tags maps the tags of ImageStreams to images, and to the Holders that depend on them. The
// zero value is empty and ready.
type tags struct {
	images map[string]string          // by Reference.Tag
	had    map[changedObject][]string // the tags of each ImageStream
	// waiting are the Holders that depend on a tag, by the tag, whether it is known or not.
	waiting map[string]map[changedObject]Holder
	waits   map[changedObject][]string // the tags each of them depends on
}

// put enters the tags that h has and those that it depends on, instead of what was known of
// the same object. It returns the Holders whose images have changed.
func (t *tags) put(h Holder) []Holder {
	o := changedObject{h.Kind, objectKey{h.Namespace, h.Name}}
	t.wait(o, h)
	had := t.had[o]
	now := tagsOf(h)
	if len(had) == 0 && len(now) == 0 {
		return nil
	}
	t.init()
	changed := map[changedObject]Holder{}
	for _, tag := range had {
		if now[tag] == "" {
			delete(t.images, tag)
			maps.Copy(changed, t.waiting[tag])
		}
	}
	for tag, image := range now {
		if t.images[tag] != image {
			t.images[tag] = image
			maps.Copy(changed, t.waiting[tag])
		}
	}
	t.had[o] = slices.Collect(maps.Keys(now))
	if len(now) == 0 {
		delete(t.had, o)
	}
	return slices.Collect(maps.Values(changed))
}

func (t *tags) init() {
	if t.images == nil {
		t.images, t.had = map[string]string{}, map[changedObject][]string{}
		t.waiting, t.waits = map[string]map[changedObject]Holder{}, map[changedObject][]string{}
	}
}

// wait notes on which tags h depends.
func (t *tags) wait(o changedObject, h Holder) {
	for _, tag := range t.waits[o] {
		delete(t.waiting[tag], o)
		if len(t.waiting[tag]) == 0 {
			delete(t.waiting, tag)
		}
	}
	delete(t.waits, o)
	for _, r := range h.References {
		if r.Tag == "" || r.Image != "" {
			continue
		}
		t.init()
		if t.waiting[r.Tag] == nil {
			t.waiting[r.Tag] = map[changedObject]Holder{}
		}
		t.waiting[r.Tag][o] = h
		t.waits[o] = append(t.waits[o], r.Tag)
	}
}

// tagsOf returns the images of an ImageStream by their tags and by their digests.
func tagsOf(h Holder) map[string]string {
	var all map[string]string
	for _, r := range h.References {
		if r.Tag == "" || r.Image == "" {
			continue
		}
		if all == nil {
			all = map[string]string{}
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
func (t *tags) resolved(references []Reference) []Reference {
	if !slices.ContainsFunc(references, func(r Reference) bool { return r.Image == "" }) {
		return references
	}
	var all []Reference
	for _, r := range references {
		if r.Image == "" {
			r.Image = t.images[r.Tag]
		}
		if r.Image != "" {
			all = append(all, r)
		}
	}
	return all
}
