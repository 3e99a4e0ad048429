package mirrors

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
