package mirrors

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
)

// The names of steps in the JSON of an Edit.
var stepNames = map[stepKind]string{stepPut: "put", stepDelete: "delete", stepRemove: "remove"}

// An encodedStep is a step in the JSON of an Edit.
type encodedStep struct {
	Do     string          `json:"do"`
	Object json.RawMessage `json:"object"`
}

// A Bare is the part of an Object that judging it needs, as its manifest has it: with labels, as exemptions may select by
// them.
type Bare struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        BareMeta `json:"metadata"`
	Spec            any      `json:"spec,omitempty"`
}

// A BareMeta is the metadata of a Bare.
type BareMeta struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// BareOf returns that part of o, with the kind, which the items of a list do not name.
func BareOf(o Object) Bare {
	b := Bare{Metadata: BareMeta{o.GetName(), o.GetNamespace(), o.GetLabels()}, Spec: specOf(o)}
	b.APIVersion, b.Kind = kinds[reflect.TypeOf(o)].ToAPIVersionAndKind()
	return b
}

// MarshalJSON implements json.Marshaler: it writes the steps of e, in order, with what judging
// them needs of their objects. An Edit with an Err cannot be written.
func (e Edit) MarshalJSON() ([]byte, error) {
	if err := e.Err(); err != nil {
		return nil, err
	}
	steps := []encodedStep{}
	for _, s := range e.all() {
		object, err := s.encodedObject()
		if err != nil {
			return nil, err
		}
		steps = append(steps, encodedStep{stepNames[s.kind], object})
	}
	return json.Marshal(steps)
}

func (p step) encodedObject() (json.RawMessage, error) {
	o := BareOf(p.object)
	if p.kind != stepPut {
		o.Spec = nil // its name is enough
	}
	return json.Marshal(o)
}

// UnmarshalJSON implements json.Unmarshaler for what MarshalJSON writes. Unknown fields are an error:
// an Edit must not be judged by half.
func (e *Edit) UnmarshalJSON(data []byte) error {
	var steps []encodedStep
	if err := strictjson.Unmarshal(data, &steps); err != nil {
		return fmt.Errorf("reading an edit: %w", err)
	}
	read := Edit{}
	for _, s := range steps {
		kind, err := stepKindOf(s.Do)
		if err != nil {
			return err
		}
		o, err := decodeObject(s.Object)
		if err != nil {
			return err
		}
		read.steps = append(read.steps, step{o, kind})
	}
	*e = read
	return nil
}

// decodeObject is Parse for JSON alone, which takes a tenth of the time.
func decodeObject(data []byte) (Object, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		return nil, fmt.Errorf("reading apiVersion and kind: %w", err)
	}
	o, err := New(meta.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := strictjson.Unmarshal(data, o); err != nil {
		return nil, fmt.Errorf("reading %s: %w", meta.Kind, err)
	}
	if o.GetName() == "" {
		return nil, fmt.Errorf("an edit of a %s without a name", meta.Kind)
	}
	return o, nil
}

func stepKindOf(name string) (stepKind, error) {
	for kind, n := range stepNames {
		if n == name {
			return kind, nil
		}
	}
	return 0, fmt.Errorf("unknown step %q of an edit", name)
}
