package webhook

import (
	"bytes"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A proposal is the change that a request asks for.
type proposal struct {
	// name is that of the object, subject what messages call the change.
	name, subject string
	edit          mirrors.Edit
	// unchanged is set where the request leaves the spec as it is, or what matters of it.
	unchanged bool
}

// propose returns what r proposes. Errors are for people: they name the kind, the object and where
// possible the field.
func (r *request) propose() (proposal, error) {
	switch r.Operation {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete:
	default:
		return proposal{}, fmt.Errorf("%s: unknown operation %q", r.title(), r.Operation)
	}
	switch r.step {
	case stepDelete:
		return r.proposeRemoval(mirrors.Delete)
	case stepRemoveFinally:
		return r.proposeRemoval(mirrors.RemoveFinally)
	default:
		return r.proposePut()
	}
}

func (r *request) proposePut() (proposal, error) {
	if r.keepsSpec() { // however large that is, and whatever is in it
		return proposal{name: r.put.nameOr(r.Name), subject: r.title(), unchanged: true}, nil
	}
	obj, err := r.decode(r.put)
	if err != nil {
		return proposal{}, err
	}
	if obj.GetName() == "" {
		return proposal{}, fmt.Errorf("%s: the object has no name", r.title())
	}
	p := proposalOf(obj, mirrors.Put)
	if r.Operation == admissionv1.Update {
		old, err := r.decode(r.old) // one that cannot be read counts as different
		p.unchanged = err == nil && mirrors.SameSpec(old, obj)
	}
	return p, nil
}

// keepsSpec reports whether r is an update with the very spec in force, of a kind whose other parts do not
// matter. An API server writes the same spec in the same way; different texts may mean the same.
func (r *request) keepsSpec() bool {
	o, err := mirrors.New(r.kind())
	return err == nil && !mirrors.SelectsByLabels(o) && r.Operation == admissionv1.Update && !r.put.isUnread() && !r.old.isUnread() &&
		bytes.Equal(r.put.spec, r.old.spec) && r.verify(r.put) == nil && r.verify(r.old) == nil
}

func proposalOf(obj mirrors.Object, edit func(mirrors.Object) mirrors.Edit) proposal {
	e := edit(obj)
	return proposal{name: obj.GetName(), subject: e.Subject(), edit: e}
}

// proposeRemoval uses no more of the old object than its name, which is all that a deletion
// needs: an object that could not be read in full must still be deletable, since to delete it is
// the remedy.
func (r *request) proposeRemoval(edit func(mirrors.Object) mirrors.Edit) (proposal, error) {
	obj, err := mirrors.New(r.kind())
	if err != nil {
		return proposal{}, fmt.Errorf("%s: %w", r.title(), err)
	}
	// Where a collection is deleted only the object has the name (DeleteCollection in
	// k8s.io/apiserver, pkg/endpoints/handlers/delete.go).
	obj.SetName(r.old.nameOr(r.Name))
	obj.SetNamespace(r.Namespace)
	if obj.GetName() == "" {
		return proposal{}, fmt.Errorf("%s: the request names no object to delete", r.title())
	}
	return proposalOf(obj, edit), nil
}
