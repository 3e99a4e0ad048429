package webhook

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A proposal is the change that a request asks for.
type proposal struct {
	// name is that of the object, subject what messages call the change.
	name, subject string
	edit          mirrors.Edit
	// unchanged is set where the request leaves the spec as it is.
	unchanged bool
}

// decode returns what req proposes. Errors are for people: they name
// the kind, the object and where possible the field.
func decode(req admissionv1.AdmissionRequest) (proposal, error) {
	switch req.Operation {
	case admissionv1.Create, admissionv1.Update:
		if takesAway(req) {
			return decodeRemoval(req, mirrors.RemoveFinally)
		}
		return decodePut(req)
	case admissionv1.Delete:
		return decodeRemoval(req, mirrors.Delete)
	default:
		return proposal{}, fmt.Errorf("%s: unknown operation %q", nameIn(req), req.Operation)
	}
}

// takesAway reports whether req is the update by which an object ends that is under
// deletion: nodes have it until its last finalizer is removed. The API server deletes it
// without another request then (ShouldDeleteDuringUpdate in k8s.io/apiserver,
// pkg/registry/generic/registry/store.go).
func takesAway(req admissionv1.AdmissionRequest) bool {
	var obj, old metav1.PartialObjectMetadata
	if req.Operation != admissionv1.Update || json.Unmarshal(req.Object.Raw, &obj) != nil || json.Unmarshal(req.OldObject.Raw, &old) != nil {
		return false
	}
	grace := old.DeletionGracePeriodSeconds
	return len(obj.Finalizers) == 0 && old.DeletionTimestamp != nil && (grace == nil || *grace == 0)
}

func decodePut(req admissionv1.AdmissionRequest) (proposal, error) {
	obj, err := decodeObject(req, req.Object.Raw)
	if err != nil {
		return proposal{}, err
	}
	// A name is generated before the object is validated (BeforeCreate in
	// k8s.io/apiserver, pkg/registry/rest/create.go), but not put in the request.
	obj.SetName(cmp.Or(obj.GetName(), req.Name))
	obj.SetNamespace(req.Namespace)
	if obj.GetName() == "" {
		return proposal{}, fmt.Errorf("%s: the object has no name", nameIn(req))
	}
	p := propose(obj, mirrors.Put)
	p.unchanged = req.Operation == admissionv1.Update && sameSpec(req, obj)
	return p, nil
}

func propose(obj mirrors.Object, edit func(mirrors.Object) mirrors.Edit) proposal {
	e := edit(obj)
	return proposal{name: obj.GetName(), subject: e.Subject(), edit: e}
}

// decodeRemoval reads no more of the old object than its name, which is all that
// a deletion needs: an object that could not be read in full must still be
// deletable, since to delete it is the remedy.
func decodeRemoval(req admissionv1.AdmissionRequest, edit func(mirrors.Object) mirrors.Edit) (proposal, error) {
	obj, err := mirrors.New(kindOf(req))
	if err != nil {
		return proposal{}, fmt.Errorf("%s: %w", nameIn(req), err)
	}
	var old metav1.PartialObjectMetadata
	// An error leaves the name that the request gives.
	_ = json.Unmarshal(req.OldObject.Raw, &old)
	// Where a collection is deleted only the object has the name (DeleteCollection
	// in k8s.io/apiserver, pkg/endpoints/handlers/delete.go).
	obj.SetName(cmp.Or(old.Name, req.Name))
	obj.SetNamespace(req.Namespace)
	if obj.GetName() == "" {
		return proposal{}, fmt.Errorf("%s: the request names no object to delete", nameIn(req))
	}
	return propose(obj, edit), nil
}

// sameSpec reports whether the old object of req has the spec of obj. An old
// object that cannot be read counts as different.
func sameSpec(req admissionv1.AdmissionRequest, obj mirrors.Object) bool {
	old, err := decodeObject(req, req.OldObject.Raw)
	return err == nil && mirrors.SameSpec(old, obj)
}

// decodeObject reads raw as the kind that req announces. Unknown fields are no
// error, as the API server has dropped them or will; fields of the wrong type
// are, and so is an object that calls itself something else than the request.
func decodeObject(req admissionv1.AdmissionRequest, raw []byte) (mirrors.Object, error) {
	obj, err := mirrors.New(kindOf(req))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameIn(req), err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, fmt.Errorf("%s: the request holds no object", nameIn(req))
	}
	if err := json.Unmarshal(raw, obj); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", nameIn(req), explain(err))
	}
	return obj, verify(req, obj)
}

// verify holds obj to what req says about it. Either may be silent.
func verify(req admissionv1.AdmissionRequest, obj mirrors.Object) error {
	o, ok := obj.(runtime.Object)
	if !ok {
		return fmt.Errorf("%s: %T is not an API object", nameIn(req), obj)
	}
	if gvk := o.GetObjectKind().GroupVersionKind(); !gvk.Empty() && gvk != kindOf(req) {
		return fmt.Errorf("%s: the object is of another kind, %s %s", nameIn(req), gvk.GroupVersion(), gvk.Kind)
	}
	if req.Name != "" && obj.GetName() != "" && obj.GetName() != req.Name {
		return fmt.Errorf("%s: the object has another name, %q", nameIn(req), obj.GetName())
	}
	return nil
}

// nameIn returns how messages name the object of a request that could not be
// read.
func nameIn(req admissionv1.AdmissionRequest) string {
	name := cmp.Or(req.Name, "without a name")
	if req.Namespace != "" && req.Name != "" {
		name = req.Namespace + "/" + name
	}
	return cmp.Or(req.Kind.Kind, "object without a kind") + " " + name
}

// kindOf returns the kind to read the object of req as: the one the webhook is
// registered for, into which the API server converts (matchPolicy Equivalent).
func kindOf(req admissionv1.AdmissionRequest) schema.GroupVersionKind {
	return schema.GroupVersionKind(req.Kind)
}

// explain says in the words of JSON which field has the wrong type. Other errors
// are returned as they are.
func explain(err error) error {
	var wrong *stdjson.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	return fmt.Errorf("%s is of type %s, want %s", cmp.Or(wrong.Field, "it"), wrong.Value, jsonType(wrong.Type))
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	default:
		return "number"
	}
}
