package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/containers/image/v5/docker/reference"
	imagev1 "github.com/openshift/api/image/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Lookup says for which names OpenShift's admission plugin image.openshift.io/ImagePolicy
// looks among the ImageStreams of the namespace
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

// lookupOf returns what the plugin does to the images of an object that has a pod
// template. An object that has a controller is left alone: what a controller copies from
// a template that has been admitted is taken as it is (ImagePolicyPlugin, admit; since
// OpenShift 4.9).
func lookupOf(o metav1.Object, template *corev1.PodTemplateSpec) Lookup {
	switch {
	case metav1.GetControllerOf(o) != nil:
		return LookupNone
	case o.GetAnnotations()[resolveNames] == "*", template.Annotations[resolveNames] == "*":
		return LookupAll
	default:
		return LookupLocal
	}
}

// name returns the ImageStream and the tag that an image stands for, if there is such a
// stream. There is none for a digest: it says already which image is meant.
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

// of returns l if an image might stand for a tag, for References to be kept small.
func (l Lookup) of(image string) Lookup {
	if _, _, ok := l.name(strings.TrimSpace(image)); !ok {
		return LookupNone
	}
	return l
}

// A Stream is what the names of an ImageStream's tags stand for.
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

// localNames are the ImageStreams of a cluster, and the Holders whose images may stand for
// their tags. The zero value has none.
type localNames struct {
	streams map[objectKey]*Stream
	holders map[string]map[changedObject]Holder // by namespace
}

// hold remembers h if streams matter to it.
func (n *localNames) hold(h Holder) {
	o := changedObject{h.Kind, objectKey{h.Namespace, h.Name}}
	if !slices.ContainsFunc(h.References, func(r Reference) bool { return r.Lookup != LookupNone }) {
		delete(n.holders[h.Namespace], o)
		if len(n.holders[h.Namespace]) == 0 {
			delete(n.holders, h.Namespace)
		}
		return
	}
	if n.holders == nil {
		n.holders = map[string]map[changedObject]Holder{}
	}
	if n.holders[h.Namespace] == nil {
		n.holders[h.Namespace] = map[changedObject]Holder{}
	}
	n.holders[h.Namespace][o] = h
}

// resolved returns h with what its names stand for.
func (n *localNames) resolved(h Holder) Holder {
	cloned := false
	for i, r := range h.References {
		stream, tag, ok := r.Lookup.name(r.Image)
		if !ok {
			continue
		}
		image, ok := n.streams[objectKey{h.Namespace, stream}].image(r.Lookup, tag)
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

// put enters a stream, nil for one that is gone, and returns the Holders to which it may
// matter.
func (n *localNames) put(key objectKey, s *Stream) []Holder {
	if n.streams[key].equal(s) {
		return nil
	}
	if s == nil {
		delete(n.streams, key)
	} else {
		if n.streams == nil {
			n.streams = map[objectKey]*Stream{}
		}
		n.streams[key] = s
	}
	var holders []Holder
	for _, h := range n.holders[key.namespace] {
		if slices.ContainsFunc(h.References, func(r Reference) bool {
			stream, _, ok := r.Lookup.name(r.Image)
			return ok && stream == key.name
		}) {
			holders = append(holders, h)
		}
	}
	return holders
}
