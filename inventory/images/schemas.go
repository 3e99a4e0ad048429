package images

import (
	"encoding/json"
	"slices"
	"strings"
)

// KindsWithPods returns the kinds of an OpenAPI document, as an API server publishes it,
// whose objects have fields with the shape of a pod. A schema that leaves its fields open reveals
// nothing.
func KindsWithPods(document []byte) (map[string]bool, error) {
	var d struct{ Components struct{ Schemas openAPI } }
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	kinds := map[string]bool{}
	for _, s := range d.Components.Schemas {
		if of, _ := s["x-kubernetes-group-version-kind"].([]any); len(of) == 1 { // those with more are options of requests
			gvk, _ := of[0].(map[string]any)
			if kind, _ := gvk["kind"].(string); d.Components.Schemas.hasPods(s, map[string]bool{}, 0) {
				kinds[kind] = true
			}
		}
	}
	return kinds, nil
}

// An openAPI holds schemas by their names.
type openAPI map[string]map[string]any

// refPrefix begins every reference to one of them.
const refPrefix = "#/components/schemas/"

// hasPods reports whether a list of containers is somewhere below a schema, or below one of a list.
func (d openAPI) hasPods(schema any, seen map[string]bool, depth int) bool {
	if all, is := schema.([]any); is {
		return slices.ContainsFunc(all, func(one any) bool { return d.hasPods(one, seen, depth) })
	}
	s, _ := schema.(map[string]any)
	ref, isRef := s["$ref"].(string)
	switch {
	case s == nil || depth > maxGuessDepth || isRef && seen[ref]:
		return false
	case isRef:
		seen[ref] = true
		return d.hasPods(d[strings.TrimPrefix(ref, refPrefix)], seen, depth+1)
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		if containerLists[name] && d.isContainerList(p) || (depth > 0 || name != "status") && d.hasPods(p, seen, depth+1) {
			return true
		}
	}
	return d.hasPods(s["allOf"], seen, depth+1) || d.hasPods(s["items"], seen, depth+1) || d.hasPods(s["additionalProperties"], seen, depth+1)
}

func (d openAPI) isContainerList(schema any) bool {
	item, _ := d.resolved(d.resolved(schema)["items"])["properties"].(map[string]any)
	return item["image"] != nil
}

// resolved follows references, which for fields with a default are wrapped in an allOf.
func (d openAPI) resolved(schema any) map[string]any {
	for range maxGuessDepth {
		s, _ := schema.(map[string]any)
		parts, _ := s["allOf"].([]any)
		ref, isRef := s["$ref"].(string)
		switch {
		case isRef:
			schema = d[strings.TrimPrefix(ref, refPrefix)]
		case len(parts) == 1:
			schema = parts[0]
		default:
			return s
		}
	}
	return nil
}
