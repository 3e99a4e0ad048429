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

// An encodedObject is the part of an object that judging an Edit needs: with labels, as exemptions
// may select by them, and only the name of a deleted object.
type encodedObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        encodedMeta `json:"metadata"`
	Spec            any         `json:"spec,omitempty"`
}

type encodedMeta struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
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
	o := encodedObject{Metadata: encodedMeta{Name: p.object.GetName(), Namespace: p.object.GetNamespace(), Labels: p.object.GetLabels()}}
	o.APIVersion, o.Kind = kinds[reflect.TypeOf(p.object)].ToAPIVersionAndKind()
	if p.kind == stepPut {
		o.Spec = specOf(p.object)
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
