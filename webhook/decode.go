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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// The bounds of decoding. Values are counted before there are maps and slices of them: a text of 7 MB may hold
// two and a half million empty entries, which would take a gigabyte.
const (
	// maxValues is several times what fits into a MachineConfig (mirrors.MaxEncoded).
	maxValues = 100_000
	maxLabels = 1_000
	// maxField and maxFieldValues bound each field of a request, but for objects: they are for thousands of groups
	// of a user.
	maxField       = 1 << 20
	maxFieldValues = 32_000
)

// A part is a piece of a JSON text as it is, nil for null. Unlike a json.RawMessage it is no copy: it lasts as
// long as the text.
type part []byte

// UnmarshalJSON implements json.Unmarshaler.
func (p *part) UnmarshalJSON(text []byte) error {
	if *p = text; string(text) == "null" {
		*p = nil
	}
	return nil
}

// readReview returns the type of an AdmissionReview by its own account, and the request in it, nil if
// there is none. The objects of the request are parts of the text; the rest is small, or an
// error.
func readReview(body []byte) (metav1.TypeMeta, *admissionv1.AdmissionRequest, error) {
	var review struct {
		metav1.TypeMeta

		Request part `json:"request"`
	}
	if err := explain(json.Unmarshal(body, &review)); err != nil || review.Request == nil {
		return review.TypeMeta, nil, err
	}
	var req admissionv1.AdmissionRequest
	fields := map[string]any{
		"uid": &req.UID, "kind": &req.Kind, "resource": &req.Resource, "subResource": &req.SubResource, "name": &req.Name,
		"namespace": &req.Namespace, "operation": &req.Operation, "userInfo": &req.UserInfo, "dryRun": &req.DryRun,
		"object": (*part)(&req.Object.Raw), "oldObject": (*part)(&req.OldObject.Raw),
	}
	for name, value := range rawjson.Members(review.Request) {
		if into := fields[string(name)]; into != nil { // nothing else is used
			if err := decodeField(value, into); err != nil {
				return review.TypeMeta, nil, fmt.Errorf("request.%s %w", name, err)
			}
		}
	}
	return review.TypeMeta, &req, nil
}

// decodeField decodes a field of a request, unless it is large.
func decodeField(value []byte, into any) error {
	if object, ok := into.(*part); ok {
		return object.UnmarshalJSON(value)
	}
	if len(value) > maxField || rawjson.Values(value, maxFieldValues+1) > maxFieldValues {
		return errors.New("is larger than the guard reads")
	}
	if err := explain(json.Unmarshal(value, into)); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	return nil
}

// A manifest is an object as a request holds it: what matters of its metadata, and the raw spec.
type manifest struct {
	raw []byte // nil for none
	// err is why it cannot be read. The fields read all the same count.
	err error

	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string    `json:"name"`
		UID         types.UID `json:"uid"`
		Generation  int64     `json:"generation"`
		Labels      labelSet  `json:"labels"`
		Annotations struct {
			Override *string `json:"mirrorset-guard.io/override"` // OverrideAnnotation
		} `json:"annotations"`
		Finalizers                 part  `json:"finalizers"`
		DeletionTimestamp          part  `json:"deletionTimestamp"`
		DeletionGracePeriodSeconds int64 `json:"deletionGracePeriodSeconds"`
	} `json:"metadata"`
	Spec part `json:"spec"`

	decoded bool
	object  mirrors.Object // once it is decoded
	why     error          // why it cannot be
}

func readManifest(raw []byte) *manifest {
	m := new(manifest)
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return m
	}
	m.raw = raw
	m.err = explain(json.Unmarshal(raw, m))
	if m.err == nil && m.Metadata.Labels.err != nil {
		m.err = fmt.Errorf("metadata.labels %w", m.Metadata.Labels.err)
	}
	return m
}

// A labelSet holds the labels of an object. An error does not keep the rest of the object from being read.
type labelSet struct {
	all map[string]string
	err error
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *labelSet) UnmarshalJSON(text []byte) error {
	if rawjson.Values(text, maxLabels+2) > maxLabels+1 {
		l.err = fmt.Errorf("has more than %d labels, which is the limit", maxLabels)
	} else if err := explain(json.Unmarshal(text, &l.all)); err != nil {
		l.err = fmt.Errorf("cannot be read: %w", err)
	}
	return nil
}

// nameOr returns the name of the object, or another if it has none that could be read.
func (m *manifest) nameOr(name string) string { return cmp.Or(m.Metadata.Name, name) }

// isUnread reports whether there is nothing that could be relied on.
func (m *manifest) isUnread() bool { return m.raw == nil || m.err != nil }

// hasFinalizers reports whether there are any.
func (m *manifest) hasFinalizers() bool { return rawjson.Values(m.Metadata.Finalizers, 2) > 1 }

// isGoing reports whether the object ends once it has no finalizers.
func (m *manifest) isGoing() bool {
	return m.Metadata.DeletionTimestamp != nil && m.Metadata.DeletionGracePeriodSeconds == 0
}

// decodeSpec decodes the spec into obj, unless it holds more than is decoded. Nothing else of the object is shown to
// the decoder.
func (m *manifest) decodeSpec(obj mirrors.Object) error {
	if m.Spec == nil {
		return nil
	}
	if rawjson.Values(m.Spec, maxValues+1) > maxValues {
		return fmt.Errorf("spec has more than %s values, which is the limit", text.Number(maxValues))
	}
	return explain(json.Unmarshal(bytes.Join([][]byte{[]byte(`{"spec":`), m.Spec, []byte(`}`)}, nil), obj))
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
