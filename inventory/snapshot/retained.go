package snapshot

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/images"
)

// An owner is an object with a template from which others are made.
type owner struct {
	kind            schema.GroupKind
	namespace, name string
}

// A retained object is one that its owner keeps for a rollback, such as an old ReplicaSet. It
// is history only if the template of its owner is known, which may come later in the dump,
// or not at all: a dump may hold some Deployments and not others.
type retained struct {
	holder images.Holder
	owner  owner
}

// retain defers h until the whole dump has been read if an owner keeps it, and reports
// whether it did.
func (r *reader) retain(h images.Holder, data []byte) bool {
	delete(r.retained, keyOf(h)) // what an older object of the name was
	if !slices.ContainsFunc(h.References, func(ref images.Reference) bool { return ref.Keeper != schema.GroupKind{} }) {
		return false
	}
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(data, &o) != nil {
		return false // Decode has read it
	}
	controller := metav1.GetControllerOf(&o)
	if controller == nil {
		return false
	}
	kind := images.CurrentKind(schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind())
	r.retained[keyOf(h)] = retained{h, owner{kind, h.Namespace, controller.Name}}
	return true
}

func keyOf(h images.Holder) [3]string { return [3]string{h.Kind, h.Namespace, h.Name} }

// putRetained puts the objects that owners keep. Without its owner, such an object may be the only trace
// of a template.
func (r *reader) putRetained() {
	for _, k := range r.retained {
		if !r.templates[k.owner] {
			for i := range k.holder.References {
				k.holder.References[i].Keeper = schema.GroupKind{}
			}
		}
		r.put(k.holder)
	}
}
