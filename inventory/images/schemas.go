package images

import "encoding/json"

// KindsWithPods returns the kinds of an OpenAPI document, as an API server publishes it,
// whose objects have fields with the shape of a pod. A schema that leaves its fields open reveals
// nothing.
func KindsWithPods(document []byte) (map[string]bool, error) {
	var d openAPI
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	return d.kindsWithPods(), nil
}

// An openAPI holds the parts of an OpenAPI document that are used.
type openAPI struct {
	Components struct {
		Schemas map[string]*openAPISchema
	}
}

type openAPISchema struct {
	Ref        string `json:"$ref"`
	Properties map[string]*openAPISchema
	Items      *openAPISchema
	AllOf      []*openAPISchema
	Values     optionalSchema          `json:"additionalProperties"`
	Kinds      []struct{ Kind string } `json:"x-kubernetes-group-version-kind"`
}

// An optionalSchema is one where JSON may have true or false instead.
type optionalSchema struct{ schema *openAPISchema }

// UnmarshalJSON implements json.Unmarshaler.
func (o *optionalSchema) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return nil
	}
	return json.Unmarshal(data, &o.schema)
}

func (d openAPI) kindsWithPods() map[string]bool {
	kinds := map[string]bool{}
	for _, s := range d.Components.Schemas {
		if s == nil || len(s.Kinds) != 1 { // those with more are options of requests
			continue
		}
		if d.hasPods(s, map[string]bool{}, 0) {
			kinds[s.Kinds[0].Kind] = true
		}
	}
	return kinds
}

// hasPods reports whether a list of containers is somewhere below s.
func (d openAPI) hasPods(s *openAPISchema, seen map[string]bool, depth int) bool {
	s, fresh := d.resolved(s, seen)
	if s == nil || !fresh || depth > maxGuessDepth {
		return false
	}
	for name, p := range s.Properties {
		if containerLists[name] && d.isContainerList(p) || (depth > 0 || name != "status") && d.hasPods(p, seen, depth+1) {
			return true
		}
	}
	for _, part := range s.AllOf {
		if d.hasPods(part, seen, depth+1) {
			return true
		}
	}
	return s.Items != nil && d.hasPods(s.Items, seen, depth+1) || s.Values.schema != nil && d.hasPods(s.Values.schema, seen, depth+1)
}

func (d openAPI) isContainerList(s *openAPISchema) bool {
	s, _ = d.resolved(s, map[string]bool{})
	if s == nil || s.Items == nil {
		return false
	}
	item, _ := d.resolved(s.Items, map[string]bool{})
	return item != nil && item.Properties["image"] != nil
}

// refPrefix begins every reference in such a document.
const refPrefix = "#/components/schemas/"

// resolved follows references, which for fields with a default are wrapped in an allOf. It
// reports false if one of them has been followed before.
func (d openAPI) resolved(s *openAPISchema, seen map[string]bool) (*openAPISchema, bool) {
	for s != nil {
		ref := s.Ref
		if ref == "" && len(s.AllOf) == 1 && s.AllOf[0] != nil {
			ref = s.AllOf[0].Ref
		}
		if ref == "" {
			return s, true
		}
		if seen[ref] || len(ref) <= len(refPrefix) {
			return nil, false
		}
		seen[ref] = true
		s = d.Components.Schemas[ref[len(refPrefix):]]
	}
	return nil, false
}
