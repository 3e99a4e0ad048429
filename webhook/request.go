package webhook

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A request is an AdmissionRequest that has been read. It is passed on as this value, and the JSON of
// its objects is not read again: it holds their relevant metadata and the
// raw spec, which is decoded once, if it is needed at all.
type request struct {
	admissionv1.AdmissionRequest
	// put is the object that is asked for, old the one in force. Either may be missing.
	put, old *manifest
	step     step
	// fate is whether others may be told that it is admitted.
	fate atomic.Int32
}

// A step is the effect of a request on its object.
type step int

const (
	stepPut step = iota
	stepDelete
	// stepRemoveFinally: the last finalizer of an object under deletion is removed.
	stepRemoveFinally
)

// The bounds of decoding. Labels and values are counted before there are maps and slices of them: a
// text of 7 MB may hold two and a half million empty entries, which would take a gigabyte.
const (
	// maxValues is several times what fits into a MachineConfig (mirrors.MaxEncoded).
	maxValues = 100_000
	maxLabels = 1_000
)

// readRequest reads req. An unreadable part is noted where it is missing.
func readRequest(req admissionv1.AdmissionRequest) *request {
	r := &request{AdmissionRequest: req, put: readManifest(req.Object.Raw), old: readManifest(req.OldObject.Raw)}
	switch {
	case req.Operation == admissionv1.Delete:
		r.step = stepDelete
	case r.takesAway():
		r.step = stepRemoveFinally
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
	return !r.put.finalizers && r.old.going
}

// isRemoval reports whether r takes an object out of force.
func (r *request) isRemoval() bool { return r.step != stepPut }

// release gives up the text of r, which may have 8 MiB: the outcome of a change is followed for some
// more seconds, for which its metadata suffice.
func (r *request) release() {
	r.Object.Raw, r.OldObject.Raw = nil, nil
	for _, m := range []*manifest{r.put, r.old} {
		m.raw, m.spec = nil, nil
	}
}

func (r *request) isDryRun() bool { return r.DryRun != nil && *r.DryRun }

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

// isMadeIn reports whether a configuration is as r asks for because of r: an API server gives an
// object its uid before it asks about it, and no other client knows that uid.
func (r *request) isMadeIn(set mirrors.Set) bool {
	if r.isRemoval() || r.put.uid == "" {
		return true
	}
	o := r.objectIn(set)
	return o == nil || o.GetUID() == "" || o.GetUID() == r.put.uid
}

// objectIn returns the object of r as a configuration has it, nil if it does not: it has the lists
// of Image cluster, and not the object.
func (r *request) objectIn(set mirrors.Set) mirrors.Object {
	wanted, err := mirrors.New(r.kind())
	if err != nil {
		return nil
	}
	wanted.SetName(r.subject().nameOr(r.Name))
	wanted.SetNamespace(r.Namespace)
	for _, o := range slices.Concat(set.Objects, set.Policies, set.Pinned) {
		if mirrors.NameOf(o) == mirrors.NameOf(wanted) {
			return o
		}
	}
	return nil
}

// A manifest is an object as a request holds it: the metadata that matter, and the raw spec.
type manifest struct {
	raw, spec []byte // nil for none
	// gvk is what the object calls itself.
	gvk schema.GroupVersionKind

	name       string
	uid        types.UID
	generation int64
	labels     map[string]string
	// override is the value of OverrideAnnotation; asked is set if there is one.
	override string
	asked    bool
	// finalizers is set if there are any; going, if the object ends without them.
	finalizers, going bool

	// err is why it cannot be read. The parts read before that count.
	err error

	decoded bool
	object  mirrors.Object // once it is decoded
	why     error          // why it cannot be
}

// nameOr returns the name of the object, or another if it has none that could be read.
func (m *manifest) nameOr(name string) string { return cmp.Or(m.name, name) }

// isUnread reports whether there is nothing that could be relied on.
func (m *manifest) isUnread() bool { return m.raw == nil || m.err != nil }

func readManifest(raw []byte) *manifest {
	m := new(manifest)
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || rawjson.KindOf(raw) == rawjson.Null {
		return m
	}
	m.raw = raw
	if m.err = wellFormed(raw); m.err != nil {
		return m
	}
	for field, value := range rawjson.Members(raw) {
		switch string(field) {
		case "apiVersion":
			m.gvk = schema.FromAPIVersionAndKind(m.readText(value, "apiVersion"), m.gvk.Kind)
		case "kind":
			m.gvk.Kind = m.readText(value, "kind")
		case "metadata":
			m.readMetadata(value)
		case "spec":
			m.spec = value
		}
	}
	return m
}

// wellFormed returns the reason why text is not a JSON object, nil if it is one.
func wellFormed(text []byte) error {
	var nothing struct{} // nothing is decoded
	return explain(stdjson.Unmarshal(text, &nothing))
}

func (m *manifest) readMetadata(metadata []byte) {
	deleted, grace := false, int64(0)
	for field, value := range rawjson.Members(metadata) {
		switch string(field) {
		case "name":
			m.name = m.readText(value, "metadata.name")
		case "uid":
			m.uid = types.UID(m.readText(value, "metadata.uid"))
		case "generation":
			m.generation = m.readNumber(value, "metadata.generation")
		case "labels":
			m.readLabels(value)
		case "annotations":
			for name, annotation := range rawjson.Members(value) {
				if string(name) == OverrideAnnotation {
					m.override, m.asked = m.readText(annotation, "metadata.annotations."+OverrideAnnotation), true
				}
			}
		case "finalizers":
			m.finalizers = false
			for range rawjson.Elements(value) {
				m.finalizers = true
				break
			}
		case "deletionTimestamp":
			deleted = rawjson.KindOf(value) != rawjson.Null
		case "deletionGracePeriodSeconds":
			grace = m.readNumber(value, "metadata.deletionGracePeriodSeconds")
		}
	}
	m.going = deleted && grace == 0
}

func (m *manifest) readLabels(labels []byte) {
	m.labels = nil
	for name, value := range rawjson.Members(labels) {
		if len(m.labels) == maxLabels {
			m.fail(fmt.Errorf("metadata.labels has more than %d labels, which is the limit", maxLabels))
			return
		}
		if m.labels == nil {
			m.labels = map[string]string{}
		}
		m.labels[string(name)] = m.readText(value, "metadata.labels."+text.Cut(string(name), maxNameRunes))
	}
}

// readText returns a string; "" for null.
func (m *manifest) readText(value []byte, field string) string {
	var s string
	m.read(value, &s, rawjson.String, field)
	return s
}

// readNumber returns a number; 0 for null.
func (m *manifest) readNumber(value []byte, field string) int64 {
	if kind := rawjson.KindOf(value); kind != rawjson.Number && kind != rawjson.Null {
		m.fail(wrongKind(field, kind, rawjson.Number))
		return 0
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil && rawjson.KindOf(value) == rawjson.Number {
		m.fail(fmt.Errorf("%s is not a whole number", field))
	}
	return n
}

func (m *manifest) read(value []byte, into any, want rawjson.Kind, field string) {
	switch kind := rawjson.KindOf(value); kind {
	case rawjson.Null:
	case want:
		if err := stdjson.Unmarshal(value, into); err != nil {
			m.fail(fmt.Errorf("%s: %w", field, err))
		}
	default:
		m.fail(wrongKind(field, kind, want))
	}
}

func wrongKind(field string, is, want rawjson.Kind) error {
	return fmt.Errorf("%s is of type %s, want %s", field, is, want)
}

// fail notes why m cannot be read. The first reason counts.
func (m *manifest) fail(err error) {
	if m.err == nil {
		m.err = err
	}
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

func (r *request) decodeOnce(m *manifest) (mirrors.Object, error) {
	obj, err := mirrors.New(r.kind())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.title(), err)
	}
	if m.raw == nil {
		return nil, fmt.Errorf("%s: the request holds no object", r.title())
	}
	err = m.err
	if err == nil {
		err = m.tooMuch()
	}
	if err == nil {
		err = m.decodeSpec(obj)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", r.title(), err)
	}
	// A name is generated before the object is validated (BeforeCreate in k8s.io/apiserver,
	// pkg/registry/rest/create.go), but not put in the request.
	obj.SetName(m.nameOr(r.Name))
	obj.SetNamespace(r.Namespace)
	obj.SetUID(m.uid)
	obj.SetGeneration(m.generation)
	obj.SetLabels(m.labels)
	return obj, r.verify(m)
}

// tooMuch returns why the spec holds more than is decoded, nil if it does not.
func (m *manifest) tooMuch() error {
	for name, value := range rawjson.Members(m.spec) {
		entries := 0
		for range rawjson.Elements(value) {
			if entries++; entries > mirrors.MaxEntries {
				return fmt.Errorf("spec.%s has more than %s entries, which is the limit", text.Cut(text.Line(string(name)), maxNameRunes), text.Number(mirrors.MaxEntries))
			}
		}
	}
	if rawjson.Values(m.spec, maxValues+1) > maxValues {
		return fmt.Errorf("spec has more than %s values, which is the limit", text.Number(maxValues))
	}
	return nil
}

// decodeSpec decodes the spec into obj. Nothing else of the object is shown to the decoder.
func (m *manifest) decodeSpec(obj mirrors.Object) error {
	if m.spec == nil {
		return nil
	}
	const before, after = `{"spec":`, `}`
	object := make([]byte, 0, len(before)+len(m.spec)+len(after))
	object = append(append(append(object, before...), m.spec...), after...)
	return explain(json.Unmarshal(object, obj))
}

// verify holds m to what r says about it. Either may be silent.
func (r *request) verify(m *manifest) error {
	if !m.gvk.Empty() && m.gvk != r.kind() {
		return fmt.Errorf("%s: the object is of another kind, %s %s", r.title(), m.gvk.GroupVersion(), m.gvk.Kind)
	}
	if r.Name != "" && m.name != "" && m.name != r.Name {
		return fmt.Errorf("%s: the object has another name, %q", r.title(), m.name)
	}
	return nil
}

// readReview returns the type of an AdmissionReview by its own account, and the request in it, nil if
// there is none. The objects of the request are parts of the text; the rest is small, or an
// error.
func readReview(body []byte) (review metav1.TypeMeta, req *admissionv1.AdmissionRequest, err error) {
	if err := wellFormed(body); err != nil {
		return review, nil, err
	}
	for field, value := range rawjson.Members(body) {
		switch string(field) {
		case "apiVersion":
			err = decodeField(value, "apiVersion", &review.APIVersion, maxField)
		case "kind":
			err = decodeField(value, "kind", &review.Kind, maxField)
		case "request":
			req, err = decodeRequest(value)
		}
		if err != nil {
			return review, nil, err
		}
	}
	return review, req, nil
}

const (
	// maxField is more than any field of a request has, but for objects and the user.
	maxField = 64 << 10
	// maxUser is for thousands of groups.
	maxUser = 1 << 20
)

func decodeRequest(value []byte) (*admissionv1.AdmissionRequest, error) {
	switch kind := rawjson.KindOf(value); kind {
	case rawjson.Null:
		return nil, nil
	case rawjson.Object:
	default:
		return nil, wrongKind("request", kind, rawjson.Object)
	}
	req := new(admissionv1.AdmissionRequest)
	for name, value := range rawjson.Members(value) {
		var into any
		most := maxField
		switch field := string(name); field {
		case "uid":
			into = &req.UID
		case "kind":
			into = &req.Kind
		case "resource":
			into = &req.Resource
		case "subResource":
			into = &req.SubResource
		case "name":
			into = &req.Name
		case "namespace":
			into = &req.Namespace
		case "operation":
			into = &req.Operation
		case "userInfo":
			into, most = &req.UserInfo, maxUser
		case "dryRun":
			into = &req.DryRun
		case "object":
			req.Object.Raw = value
			continue
		case "oldObject":
			req.OldObject.Raw = value
			continue
		default:
			continue // unused
		}
		if err := decodeField(value, "request."+string(name), into, most); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// valueSize is how much memory a value takes, at worst: an entry of a map with an empty list.
const valueSize = 128

// decodeField decodes a field of a review, unless its text has more than most bytes or would take
// many times as much memory.
func decodeField(value []byte, field string, into any, most int) error {
	if values := most * 4 / valueSize; len(value) > most || rawjson.Values(value, values+1) > values {
		return fmt.Errorf("%s is larger than the guard reads", field)
	}
	if err := explain(json.Unmarshal(value, into)); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
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
