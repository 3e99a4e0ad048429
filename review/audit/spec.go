package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
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
	sum := sha256.Sum256(encode(copied(spec, isNothing, func(s string) string { return s })))
	public := encode(copied(spec, func(any) bool { return false }, text.WithoutCredentials))
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

// isNothing reports whether a field is null or an empty list, which means for an API server that it is
// not set (equality.Semantic of k8s.io/apimachinery).
func isNothing(field any) bool {
	list, ok := field.([]any)
	return field == nil || ok && len(list) == 0
}

// copied returns a copy of decoded JSON without the fields that are left out, and with its texts rewritten.
func copied(value any, isOut func(field any) bool, rewrite func(string) string) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, field := range v {
			if !isOut(field) {
				kept[name] = copied(field, isOut, rewrite)
			}
		}
		return kept
	case []any:
		return each.Of(v, func(element any) any { return copied(element, isOut, rewrite) })
	case string:
		return rewrite(v)
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
