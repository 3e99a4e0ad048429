package mirrors

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// The kinds that Parse reads.
var (
	TagMirrorSetGVK    = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ImageTagMirrorSet"}
	DigestMirrorSetGVK = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ImageDigestMirrorSet"}
	ContentPolicyGVK   = schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1alpha1", Kind: "ImageContentSourcePolicy"}
	ImageConfigGVK     = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Image"}
	ClusterPolicyGVK   = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterImagePolicy"}
	NamespacePolicyGVK = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ImagePolicy"}
	PinnedSetGVK       = schema.GroupVersionKind{Group: "machineconfiguration.openshift.io", Version: "v1", Kind: "PinnedImageSet"}
	// PinnedSetFormerGVK is all that older clusters serve. The fields are the same.
	PinnedSetFormerGVK = schema.GroupVersionKind{Group: "machineconfiguration.openshift.io", Version: "v1alpha1", Kind: "PinnedImageSet"}
)

// MachineConfigKind is the kind of a MachineConfig.
const MachineConfigKind = "MachineConfig"

// kinds are those of Objects, which do not name them in lists. Those without a version are not known to New.
var kinds = map[reflect.Type]schema.GroupVersionKind{
	reflect.TypeFor[*configv1.ImageTagMirrorSet]():                TagMirrorSetGVK,
	reflect.TypeFor[*configv1.ImageDigestMirrorSet]():             DigestMirrorSetGVK,
	reflect.TypeFor[*operatorv1alpha1.ImageContentSourcePolicy](): ContentPolicyGVK,
	reflect.TypeFor[*configv1.Image]():                            ImageConfigGVK,
	reflect.TypeFor[*configv1.ClusterImagePolicy]():               ClusterPolicyGVK,
	reflect.TypeFor[*configv1.ImagePolicy]():                      NamespacePolicyGVK,
	reflect.TypeFor[*mcfgv1.PinnedImageSet]():                     PinnedSetGVK,
	reflect.TypeFor[*MachineConfig]():                             {Kind: MachineConfigKind},
}

// Resources returns the resources of these kinds by API group, as requests name them.
func Resources() map[string][]string {
	return map[string][]string{
		TagMirrorSetGVK.Group:  {"imagetagmirrorsets", "imagedigestmirrorsets", "images", "clusterimagepolicies", "imagepolicies"},
		ContentPolicyGVK.Group: {"imagecontentsourcepolicies"},
		PinnedSetGVK.Group:     {"pinnedimagesets"},
	}
}

// ErrKind is returned by Parse for a kind that does not end up in
// registries.conf. Test with errors.Is.
var ErrKind = errors.New("not a mirror object")

// New returns an empty Object of the given kind, or ErrKind.
func New(gvk schema.GroupVersionKind) (Object, error) {
	for of, known := range kinds {
		if known.Version != "" && (gvk == known || known == PinnedSetGVK && gvk == PinnedSetFormerGVK) {
			return reflect.New(of.Elem()).Interface().(Object), nil //nolint:forcetypeassert // kinds has nothing else
		}
	}
	return nil, fmt.Errorf("%s: %w", cmp.Or(strings.TrimSpace(gvk.GroupVersion().String()+" "+gvk.Kind), "(no kind)"), ErrKind)
}

// KindOf returns the kind of o as a person writes it.
func KindOf(o Object) string {
	if known, ok := kinds[reflect.TypeOf(o)]; ok {
		return known.Kind
	}
	return fmt.Sprintf("%T", o)
}

// isObject reports whether o is one of the Objects that there are. A nil pointer is not.
func isObject(o Object) bool {
	_, known := kinds[reflect.TypeOf(o)]
	return known && !reflect.ValueOf(o).IsNil()
}

// specOf returns what an object says.
func specOf(o Object) any {
	if m, ok := o.(*MachineConfig); ok {
		return m.Files
	}
	return reflect.ValueOf(o).Elem().FieldByName("Spec").Interface()
}

// own are kinds whose names only mirror objects have, whatever the group: ICSP's group is often
// written for the others.
var own = []schema.GroupVersionKind{TagMirrorSetGVK, DigestMirrorSetGVK, ContentPolicyGVK}

// Meant returns the kind known to Parse that gvk was probably meant to be: one of that name in
// a different version, in a different group if no other API has such a kind, or spelled with
// different case. An API server does not know gvk and refuses it; to treat it as an unrelated
// kind would be to lose it. It is false for kinds that Parse reads and for unrelated ones.
func Meant(gvk schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	if _, err := New(gvk); err == nil {
		return schema.GroupVersionKind{}, false
	}
	named := func(kind schema.GroupVersionKind) bool { return strings.EqualFold(kind.Kind, gvk.Kind) }
	if i := slices.IndexFunc(own, named); i >= 0 {
		return own[i], true
	}
	if named(ImageConfigGVK) && gvk.Group == ImageConfigGVK.Group {
		return ImageConfigGVK, true
	}
	return schema.GroupVersionKind{}, false
}

// IsKind reports whether objects of a kind are mirror objects, or are meant to be.
func IsKind(gvk schema.GroupVersionKind) bool {
	_, err := New(gvk)
	_, meant := Meant(gvk)
	return err == nil || meant
}

// Parse reads an Object from YAML or JSON. An unknown field is no error, as the
// API server drops it; a field of the wrong type is.
func Parse(data []byte) (Object, error) {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(data, &meta); err != nil {
		return nil, fmt.Errorf("reading apiVersion and kind: %w", err)
	}
	o, err := New(meta.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(data, o); err != nil {
		return nil, fmt.Errorf("reading %s: %w", meta.Kind, err)
	}
	return o, nil
}

// NameOf returns how messages name o: its kind, its namespace if it has one, and its
// name.
func NameOf(o Object) string {
	if ns := o.GetNamespace(); ns != "" && KindOf(o) == NamespacePolicyGVK.Kind {
		return KindOf(o) + " " + ns + "/" + o.GetName()
	}
	return KindOf(o) + " " + o.GetName()
}
