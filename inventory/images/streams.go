package images

import (
	"maps"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	imagev1 "github.com/openshift/api/image/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Lookup selects the names for which OpenShift's admission plugin
// image.openshift.io/ImagePolicy searches the ImageStreams of the namespace
// (openshift/apiserver-library-go, pkg/admission/imagepolicy, resolveImageReference).
type Lookup int8

const (
	// LookupNone means for none. It is the zero value.
	LookupNone Lookup = iota
	// LookupLocal means for names of one segment ("cart:latest"), where the stream of that
	// name allows it by spec.lookupPolicy.local.
	LookupLocal
	// LookupAll means for the last segment of all names, whatever the stream says.
	LookupAll
)

// resolveNames is the annotation of an object, or of its pod template, that asks for
// LookupAll by the value "*".
const resolveNames = "alpha.image.policy.openshift.io/resolve-names"

// lookupOf returns how the plugin treats the images of an object, given the annotations of
// its pods. The plugin leaves objects with a controller alone: it takes copies of an admitted template
// as they are (ImagePolicyPlugin, admit; since OpenShift 4.9).
func lookupOf(o metav1.Object, ofPods map[string]string) (l Lookup, copied bool) {
	l, copied = LookupLocal, metav1.GetControllerOf(o) != nil
	if o.GetAnnotations()[resolveNames] == "*" || ofPods[resolveNames] == "*" {
		l = LookupAll
	}
	return l, copied
}

// name returns the ImageStream and the tag that an image stands for, if there is such a
// stream. A digest stands for none: it already says which image is meant.
func (l Lookup) name(image string) (stream, tag string, ok bool) {
	if l == LookupNone || strings.Contains(image, "@") || l == LookupLocal && strings.Contains(image, "/") {
		return "", "", false
	}
	parsed, err := reference.Parse(image)
	named, isNamed := parsed.(reference.Named)
	if err != nil || !isNamed {
		return "", "", false
	}
	tag = imagev1.DefaultImageTag
	if tagged, ok := parsed.(reference.Tagged); ok {
		tag = tagged.Tag()
	}
	// openshift/library-go, pkg/image/reference, Parse: a registry, a namespace, and the
	// rest is the name. No stream is called "a/b".
	segments := strings.Split(named.Name(), "/")
	if len(segments) > 1 && (strings.ContainsAny(segments[0], ".:") || segments[0] == "localhost") {
		segments = segments[1:]
	}
	if len(segments) > 2 {
		return "", "", false
	}
	return segments[len(segments)-1], tag, true
}

// forImage returns l if an image might stand for a tag, to keep References small.
func (l Lookup) forImage(image string) Lookup {
	if _, _, ok := l.name(strings.TrimSpace(image)); !ok {
		return LookupNone
	}
	return l
}

// A Stream holds what an ImageStream's tags stand for.
type Stream struct {
	// Local is spec.lookupPolicy.local.
	Local bool
	// Repository is where the internal registry has the stream, "" without one.
	Repository string
	// Images are by tag; those that have none yet are missing.
	Images map[string]string
}

// StreamOf returns the Stream of an ImageStream: for each tag, what its latest item is
// pulled by (openshift/openshift-apiserver, pkg/image/apiserver/registry/imagestreamtag,
// newISTag).
func StreamOf(o *imagev1.ImageStream) *Stream {
	s := &Stream{Local: o.Spec.LookupPolicy.Local, Repository: o.Status.DockerImageRepository, Images: map[string]string{}}
	for _, t := range o.Status.Tags {
		if len(t.Items) == 0 || t.Items[0].Image == "" {
			continue
		}
		image := t.Items[0].DockerImageReference
		if s.Repository != "" && hasLocalPolicy(o, t.Tag) {
			image = s.Repository // it pulls the image through
		}
		if named, err := reference.Parse(image); err == nil {
			if named, ok := named.(reference.Named); ok {
				s.Images[t.Tag] = named.Name() + "@" + t.Items[0].Image
			}
		}
	}
	return s
}

func hasLocalPolicy(o *imagev1.ImageStream, tag string) bool {
	return slices.ContainsFunc(o.Spec.Tags, func(t imagev1.TagReference) bool {
		return t.Name == tag && t.ReferencePolicy.Type == imagev1.LocalTagReferencePolicy
	})
}

// image returns what a name that is looked up in s becomes. A tag that is not there is
// looked for in the internal registry; without one the name stays as it is
// (resolveImageStreamTag).
func (s *Stream) image(l Lookup, tag string) (string, bool) {
	switch {
	case s == nil || l == LookupLocal && !s.Local:
		return "", false
	case s.Images[tag] != "":
		return s.Images[tag], true
	case s.Repository != "":
		return s.Repository + ":" + tag, true
	default:
		return "", false
	}
}

func (s *Stream) equal(other *Stream) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Local == other.Local && s.Repository == other.Repository && maps.Equal(s.Images, other.Images)
}

// localNames are the ImageStreams of a cluster for whose tags images may stand. The zero value has none.
//
// The plugin looks at a template once, when it is admitted. A template that is stored
// with a short name was admitted before there was such a stream, and its pods pull what
// the name says. Nothing in the template tells it from one that has never been admitted, as in a folder
// of manifests; but the copies that a controller has made of it do.
type localNames struct {
	streams map[objectKey]*Stream
	copies  map[copiedName]int // how often controllers have copied a name
}

type copiedName struct{ namespace, image string }

// count counts the names that controllers have copied, those in an object as it is now instead of those in the old one. It returns the
// streams that this makes a difference to.
func (n *localNames) count(old, now Holder) []objectKey {
	before := map[copiedName]bool{}
	streams := map[copiedName]objectKey{}
	for count, h := range map[int]Holder{-1: old, 1: now} {
		for _, r := range h.References {
			if r.Lookup == LookupNone || !r.Copied {
				continue
			}
			name := copiedName{h.Namespace, r.Image}
			if _, seen := before[name]; !seen {
				before[name] = n.copies[name] > 0
			}
			streams[name], _ = r.stream(h.Namespace)
			set(&n.copies, name, n.copies[name]+count)
		}
	}
	var turned []objectKey
	for name, was := range before {
		if n.copies[name] == 0 {
			delete(n.copies, name)
		}
		if was != (n.copies[name] > 0) {
			turned = append(turned, streams[name])
		}
	}
	return turned
}

// resolved returns h with what its names stand for.
func (n *localNames) resolved(h Holder) Holder {
	cloned := false
	for i, r := range h.References {
		stream, tag, ok := r.Lookup.name(r.Image)
		if !ok || r.Copied || n.copies[copiedName{h.Namespace, r.Image}] > 0 {
			continue
		}
		image, ok := n.streams[objectKey{Namespace: h.Namespace, Name: stream}].image(r.Lookup, tag)
		if !ok {
			continue
		}
		if !cloned {
			h.References, cloned = slices.Clone(h.References), true
		}
		h.References[i].Image = image
	}
	return h
}

// put enters a stream, nil for one that is gone, and reports whether that makes a difference.
func (n *localNames) put(key objectKey, s *Stream) bool {
	if n.streams[key].equal(s) {
		return false
	}
	if s == nil {
		delete(n.streams, key)
	} else {
		set(&n.streams, key, s)
	}
	return true
}

// followedTags returns the fields of an ImageStream that name what something pulls without being asked
// again: a scheduled import, and the integrated registry for a tag that it pulls through
// (policy.Consumer.Puller). An image that is named by its digest is imported until that has
// succeeded once (openshift-controller-manager, pkg/image/controller/scheduled_image_controller.go,
// needsScheduling). The registry fetches nothing from itself, and without one there is no pull-through.
func followedTags(o map[string]any) map[string]bool {
	latest := map[string]string{} // what the latest item of a tag is, by its field
	visitField(o, "status.tags[].items[0].dockerImageReference", func(field string, value any) {
		latest[field], _ = value.(string)
	})
	repository := textAt(o, "status.dockerImageRepository")
	registry, _, _ := strings.Cut(repository, "/")
	followed := map[string]bool{}
	visitField(o, "spec.tags[]", func(field string, value any) {
		tag, _ := value.(map[string]any)
		name, _ := tag["name"].(string)
		item := "status.tags[" + name + "].items[0].dockerImageReference"
		image := imageIn(tag["from"])
		if scheduled, _ := mapAt(tag, "importPolicy")["scheduled"].(bool); scheduled && image != "" {
			followed[field+".from"] = latest[item] == "" || !strings.Contains(image, "@")
		}
		if mapAt(tag, "referencePolicy")["type"] == string(imagev1.LocalTagReferencePolicy) && repository != "" {
			followed[item] = !strings.HasPrefix(latest[item], registry+"/")
		}
	})
	return followed
}

func mapAt(o map[string]any, key string) map[string]any {
	value, _ := o[key].(map[string]any)
	return value
}
