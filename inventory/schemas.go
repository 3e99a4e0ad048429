package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// schemas tells which kinds have pod templates by the OpenAPI documents that every API
// server publishes and whoever is authenticated may read (ClusterRole system:discovery),
// even where the objects themselves may not be read. A schema that leaves its fields open
// tells nothing.
type schemas struct {
	api   rest.Interface
	known map[schema.GroupVersion]document
}

// A document is what is left of the one of a group version.
type document struct {
	url  string // it has a hash of the content in it
	pods map[string]bool
}

// withPods returns those of kinds whose objects have places for what is shaped like a pod,
// sorted. With an error, there may be more.
func (s *schemas) withPods(ctx context.Context, kinds map[schema.GroupVersionResource]schema.GroupKind) ([]string, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	urls, err := s.urls(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the list of schemas: %w", err)
	}
	var found []string
	var failed error
	for r, kind := range kinds {
		d, err := s.document(ctx, r.GroupVersion(), urls)
		if err != nil {
			failed = err
		}
		if d.pods[kind.Kind] {
			found = append(found, r.GroupResource().String())
		}
	}
	slices.Sort(found)
	return found, failed
}

// urls returns where the documents are, by the path of their group version.
func (s *schemas) urls(ctx context.Context) (map[string]string, error) {
	var list struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	data, err := s.api.Get().AbsPath("/openapi/v3").SetHeader("Accept", "application/json").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	urls := map[string]string{}
	for path, p := range list.Paths {
		urls[path] = p.ServerRelativeURL
	}
	return urls, err
}

// document reads the document of a group version, unless it is as it was. A group version
// without one has no schemas.
func (s *schemas) document(ctx context.Context, gv schema.GroupVersion, urls map[string]string) (document, error) {
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	url := urls[path]
	if d, ok := s.known[gv]; ok && d.url == url || url == "" {
		return d, nil
	}
	var doc openAPI
	data, err := s.api.Get().RequestURI(url).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		return document{}, fmt.Errorf("reading the schemas of %s: %w", gv, err)
	}
	if s.known == nil {
		s.known = map[schema.GroupVersion]document{}
	}
	d := document{url, doc.kindsWithPods()}
	s.known[gv] = d
	return d, nil
}

// An openAPI is a document, as far as it is looked at.
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

// refPrefix is that of the only references there are.
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
