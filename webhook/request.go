package webhook

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// A request is an AdmissionRequest that has been read. It is passed on as this value, and the JSON of
// its objects is not read again: it holds their relevant metadata and the
// raw spec, which is decoded once, if it is needed at all.
type request struct {
	admissionv1.AdmissionRequest
	// put is the object that is asked for, old the one in force. Either may be missing.
	put, old *manifest
	// remove makes the edit by which it takes its object out of force; nil if it does not.
	remove func(mirrors.Object) mirrors.Edit
	// fate is whether others may be told that it is admitted.
	fate atomic.Int32
}

// The fates of a request: the first one that is set counts.
const (
	committed = 1 + iota // other replicas may be told that it is admitted
	abandoned            // it was answered without a verdict
)

// commit reports whether other replicas may be told that r is admitted: not once it was answered otherwise.
func (r *request) commit() bool {
	return r.fate.CompareAndSwap(0, committed) || r.fate.Load() == committed
}

// readRequest reads req. An unreadable part is noted where it is missing.
func readRequest(req admissionv1.AdmissionRequest) *request {
	r := &request{AdmissionRequest: req, put: readManifest(req.Object.Raw), old: readManifest(req.OldObject.Raw)}
	switch {
	case req.Operation == admissionv1.Delete:
		r.remove = mirrors.Delete
	case r.takesAway():
		r.remove = mirrors.RemoveFinally
	}
	return r
}

// takesAway reports whether r is the update by which an object ends that is under deletion:
// nodes have it until its last finalizer is removed. The API server deletes it without another
// request then (ShouldDeleteDuringUpdate in k8s.io/apiserver,
// pkg/registry/generic/registry/store.go).
func (r *request) takesAway() bool {
	if r.Operation != admissionv1.Update || r.put.isUnread() || r.old.isUnread() {
		return false
	}
	return !r.put.hasFinalizers() && r.old.isGoing()
}

// isRemoval reports whether r takes an object out of force.
func (r *request) isRemoval() bool { return r.remove != nil }

// release gives up the text of r, which may have 8 MiB: the outcome of a change is followed for some
// more seconds, for which its metadata suffice.
func (r *request) release() {
	r.Object.Raw, r.OldObject.Raw = nil, nil
	for _, m := range []*manifest{r.put, r.old} {
		m.raw, m.Spec, m.Metadata.Finalizers, m.Metadata.DeletionTimestamp = nil, nil, nil, nil
	}
}

func (r *request) isDryRun() bool { return r.DryRun != nil && *r.DryRun }

// requester returns the user who makes r, as the API server has authenticated them.
func (r *request) requester() settings.Requester {
	return settings.Requester{User: r.UserInfo.Username, Groups: r.UserInfo.Groups}
}

// kind returns the kind to read the objects of r as: the one the webhook is registered for, into
// which the API server converts (matchPolicy Equivalent).
func (r *request) kind() schema.GroupVersionKind { return schema.GroupVersionKind(r.Kind) }

// title returns how messages name the object of a request that could not be read.
func (r *request) title() string {
	name := cmp.Or(r.Name, "without a name")
	if r.Namespace != "" && r.Name != "" {
		name = r.Namespace + "/" + name
	}
	return cmp.Or(r.Kind.Kind, "object without a kind") + " " + name
}

// subject returns the object that an override of r is on: the one that is asked for or, where it
// is taken away, the one in force.
func (r *request) subject() *manifest {
	if r.isRemoval() {
		return r.old
	}
	return r.put
}

// A proposal is the change that a request asks for.
type proposal struct {
	// name is that of the object, subject what messages call the change.
	name, subject string
	edit          mirrors.Edit
	// unchanged is set where the request leaves the spec as it is, or what matters of it.
	unchanged bool
}

// recognize returns what r proposes. Errors are for people: they name the kind, the object and where
// possible the field.
func (r *request) recognize() (proposal, error) {
	unchanged := proposal{name: r.subject().nameOr(r.Name), subject: r.title(), unchanged: true}
	switch {
	case r.Operation == admissionv1.Connect || r.SubResource != "":
		return unchanged, nil
	case !slices.Contains(reviewed, r.Operation):
		return proposal{}, fmt.Errorf("%s: unknown operation %q", r.title(), r.Operation)
	case r.isRemoval():
		return r.recognizeRemoval()
	case r.keepsSpec(): // however large that is, and whatever is in it
		return unchanged, nil
	}
	obj, err := r.decode(r.put)
	if err != nil {
		return proposal{}, err
	}
	if obj.GetName() == "" {
		return proposal{}, fmt.Errorf("%s: the object has no name", r.title())
	}
	p := proposalOf(mirrors.Put(obj), obj)
	if r.Operation == admissionv1.Update {
		old, err := r.decode(r.old) // one that cannot be read counts as different
		p.unchanged = err == nil && mirrors.SameSpec(old, obj)
	}
	return p, nil
}

func proposalOf(e mirrors.Edit, of mirrors.Object) proposal {
	return proposal{name: of.GetName(), subject: e.Subject(), edit: e}
}

// keepsSpec reports whether r is an update with the very spec in force, of a kind whose other parts do not
// matter. An API server writes the same spec in the same way; different texts may mean the same.
func (r *request) keepsSpec() bool {
	o, err := mirrors.New(r.kind())
	return err == nil && !mirrors.SelectsByLabels(o) && r.Operation == admissionv1.Update && !r.put.isUnread() && !r.old.isUnread() &&
		bytes.Equal(r.put.Spec, r.old.Spec) && r.verify(r.put) == nil && r.verify(r.old) == nil
}

// recognizeRemoval uses no more of the old object than its name, which is all that a deletion
// needs: an object that could not be read in full must still be deletable, since to delete it is
// the remedy. Where a collection is deleted only the object has the name (DeleteCollection in
// k8s.io/apiserver, pkg/endpoints/handlers/delete.go).
func (r *request) recognizeRemoval() (proposal, error) {
	obj, err := r.blank(r.old)
	if err != nil {
		return proposal{}, err
	}
	if obj.GetName() == "" {
		return proposal{}, fmt.Errorf("%s: the request names no object to delete", r.title())
	}
	return proposalOf(r.remove(obj), obj), nil
}

// blank returns an object with the name of m and no content.
func (r *request) blank(m *manifest) (mirrors.Object, error) {
	obj, err := mirrors.New(r.kind())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.title(), err)
	}
	obj.SetName(m.nameOr(r.Name))
	obj.SetNamespace(r.Namespace)
	return obj, nil
}

// decode returns the object of m, which is one of those of r, without the parts that no verdict depends on.
// Unknown fields are not an error, as the API server has dropped them or will; fields of the wrong
// type are, and so is an object whose kind or name differs from the request's.
func (r *request) decode(m *manifest) (mirrors.Object, error) {
	if !m.decoded {
		m.object, m.why = r.decodeOnce(m)
		m.decoded = true
	}
	return m.object, m.why
}

// decodeOnce relies on the name of the request where the object has none: a name is generated before the object is
// validated (BeforeCreate in k8s.io/apiserver, pkg/registry/rest/create.go), but not put in the request.
func (r *request) decodeOnce(m *manifest) (mirrors.Object, error) {
	obj, err := r.blank(m)
	if err != nil {
		return nil, err
	}
	if m.raw == nil {
		return nil, fmt.Errorf("%s: the request holds no object", r.title())
	}
	if err = m.err; err == nil {
		err = m.decodeSpec(obj)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", r.title(), err)
	}
	obj.SetUID(m.Metadata.UID)
	obj.SetGeneration(m.Metadata.Generation)
	obj.SetLabels(m.Metadata.Labels.all)
	return obj, r.verify(m)
}

// hashes are those of the specs before and after a change; "" if there is none, or if it cannot be read.
type hashes struct{ before, after string }

func (r *request) hashes() (h hashes) {
	if r.Operation != admissionv1.Create {
		h.before = r.hashOf(r.old)
	}
	if !r.isRemoval() {
		h.after = r.hashOf(r.put)
	}
	return h
}

func (r *request) hashOf(m *manifest) string {
	obj, err := r.decode(m)
	if err != nil {
		return ""
	}
	hash, _ := audit.SpecHash(obj) // "" if it cannot be encoded
	return hash
}

// verify holds m to what r says about it. Either may be silent.
func (r *request) verify(m *manifest) error {
	if gvk := schema.FromAPIVersionAndKind(m.APIVersion, m.Kind); !gvk.Empty() && gvk != r.kind() {
		return fmt.Errorf("%s: the object is of another kind, %s %s", r.title(), gvk.GroupVersion(), gvk.Kind)
	}
	if r.Name != "" && m.Metadata.Name != "" && m.Metadata.Name != r.Name {
		return fmt.Errorf("%s: the object has another name, %q", r.title(), m.Metadata.Name)
	}
	return nil
}

// confirms returns a function that reports whether a configuration is as r asks for because of r, and whether that proves
// that an API server has asked, as the uid of the object is right: it gives a new one its uid before it asks (Create in
// k8s.io/apiserver, pkg/registry/generic/registry/store.go). What r removes is in before.
func (r *request) confirms(before mirrors.Set) func(mirrors.Set) (made, proven bool) {
	object, uid := r.objectIn(before), r.subject().Metadata.UID
	return func(set mirrors.Set) (made, proven bool) {
		o := object
		if !r.isRemoval() {
			o = r.objectIn(set)
		}
		return o == nil || o.GetUID() == uid, o != nil && uid != "" && o.GetUID() == uid
	}
}

// objectIn returns the object of r as a configuration has it, nil if it does not: it has the lists
// of Image cluster, and not the object.
func (r *request) objectIn(set mirrors.Set) mirrors.Object {
	wanted, err := r.blank(r.subject())
	if err != nil {
		return nil
	}
	for _, o := range slices.Concat(set.Objects, set.Policies, set.Pinned) {
		if mirrors.NameOf(o) == mirrors.NameOf(wanted) {
			return o
		}
	}
	return nil
}
