package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// MaxSpec is how many bytes of an object a Change holds at most: many times what mirror sets
// have that people write. OpenShift's CRDs allow 3 MiB.
const MaxSpec = 64 << 10

// A Spec is an object as records have it: its spec, and what else judging it takes.
type Spec struct {
	// Hash is the SHA-256 of the canonical spec: "sha256:" and 64 digits.
	Hash string
	// object is the trimmed object as JSON.
	object json.RawMessage
	// secret is set if credentials were left out.
	secret bool
}

// SpecOf returns o, which is of the given kind, as records have it.
func SpecOf(o mirrors.Object, kind schema.GroupVersionKind) (*Spec, error) {
	spec, err := specFields(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", mirrors.NameOf(o), err)
	}
	sum := sha256.Sum256(encode(withoutNothing(spec)))
	public := encode(withoutCredentials(spec))
	return &Spec{
		Hash:   "sha256:" + hex.EncodeToString(sum[:]),
		secret: !bytes.Equal(public, encode(spec)),
		object: encode(trimmed{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Spec: public,
			Metadata: metadata{Name: o.GetName(), Namespace: o.GetNamespace(), Labels: o.GetLabels()},
		}),
	}, nil
}

// specFields returns the spec of o as decoded JSON.
func specFields(o mirrors.Object) (any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var fields struct {
		Spec any `json:"spec"`
	}
	err = json.Unmarshal(data, &fields)
	return fields.Spec, err
}

// encode returns decoded JSON, or a trimmed, as JSON with its fields in one order.
func encode(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was decoded a moment ago
	}
	return data
}

// A trimmed is an object without what no verdict depends on. Annotations are not kept, as they
// may hold anything.
type trimmed struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   metadata        `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
}

type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// withoutNothing returns value without fields that are null or an empty list, which mean for an
// API server that they are not set (equality.Semantic of k8s.io/apimachinery).
func withoutNothing(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, field := range v {
			if list, ok := field.([]any); field != nil && (!ok || len(list) > 0) {
				kept[name] = withoutNothing(field)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = withoutNothing(v[i])
		}
		return kept
	default:
		return value
	}
}

// withoutCredentials returns value with the credentials left out of its texts.
func withoutCredentials(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, field := range v {
			kept[name] = withoutCredentials(field)
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = withoutCredentials(v[i])
		}
		return kept
	case string:
		return text.WithoutCredentials(v)
	default:
		return value
	}
}

// ChangeOf returns the Change of a step from old to what is asked for; either may be nil. What
// is too large, or held credentials, is left out.
func ChangeOf(step string, before, after *Spec) *auditv1alpha1.Change {
	c := &auditv1alpha1.Change{Step: step}
	for _, side := range []struct {
		name string
		spec *Spec
		to   *json.RawMessage
	}{{"old", before, &c.Old}, {"new", after, &c.New}} {
		switch {
		case side.spec == nil:
		case len(side.spec.object) > MaxSpec:
			c.Omit(fmt.Sprintf("the %s object has %d bytes, and %d is the most", side.name, len(side.spec.object), MaxSpec))
		case side.spec.secret:
			*side.to = side.spec.object
			c.Omit("credentials in the " + side.name + " object")
		default:
			*side.to = side.spec.object
		}
	}
	return c
}
