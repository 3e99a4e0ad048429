package mirrors

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// own are kinds whose names belong to mirror objects alone, whatever the group: that of
// ICSP is often written for the others.
var own = []schema.GroupVersionKind{TagMirrorSetGVK, DigestMirrorSetGVK, ContentPolicyGVK}

// Meant returns the kind that Parse reads and that gvk was meant to be: one of that name
// in another version, in another group if no other API has such a kind, or with its
// letters in another case. An API server does not know gvk and refuses it; to take it for
// a stranger's kind would be to lose it. It is false for kinds that Parse reads, and for
// strangers' kinds.
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
