package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/each"
)

// schemaDialect is the one that a structural schema of Kubernetes is a part of.
const schemaDialect = "http://json-schema.org/draft-04/schema#"

// Schema returns the JSON schema of configuration files, made from the types, their comments
// and the defaults.
func Schema() apiextensionsv1.JSONSchemaProps {
	s := schemaOf(reflect.TypeFor[v1alpha1.GuardConfiguration](), v1alpha1.Comments())
	s.Schema = schemaDialect
	for name, constant := range map[string]string{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind} {
		property := s.Properties[name]
		property.Enum = rawList([]string{constant})
		s.Properties[name] = property
		s.Required = append(s.Required, name)
	}
	slices.Sort(s.Required)
	setDefaults(&s, tree(Default().GuardConfiguration))
	return s
}

// SchemaJSON returns Schema as a file.
func SchemaJSON() ([]byte, error) {
	data, err := json.MarshalIndent(inDialect(Schema()), "", "  ")
	return append(data, '\n'), err
}

// inDialect writes what may be null as JSON schema has it: nullable is a word of OpenAPI.
func inDialect(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	s.Properties = maps.Clone(s.Properties)
	for name, property := range s.Properties {
		s.Properties[name] = inDialect(property)
	}
	if s.Items != nil {
		items := inDialect(*s.Items.Schema)
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
	}
	if !s.Nullable {
		return s
	}
	description := s.Description
	s.Description, s.Nullable = "", false
	return apiextensionsv1.JSONSchemaProps{Description: description, AnyOf: []apiextensionsv1.JSONSchemaProps{s, {Type: "null"}}}
}

func schemaOf(t reflect.Type, comments map[string]string) apiextensionsv1.JSONSchemaProps {
	switch {
	case t == reflect.TypeFor[v1alpha1.Duration]():
		return apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`}
	case t == reflect.TypeFor[v1alpha1.Updates]():
		// No type: readers of YAML 1.1, Helm's among them, read off as false.
		return apiextensionsv1.JSONSchemaProps{Enum: append(rawList(v1alpha1.Updates("").Values()), raw(false))}
	case t.Implements(reflect.TypeFor[v1alpha1.Enum]()):
		return apiextensionsv1.JSONSchemaProps{Type: "string", Enum: rawList(reflect.Zero(t).Interface().(v1alpha1.Enum).Values())}
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := schemaOf(t.Elem(), comments)
		s.Nullable = true // as it is in the file of defaults
		return s
	case reflect.Struct:
		return schemaOfStruct(t, comments)
	case reflect.Map:
		values := schemaOf(t.Elem(), comments)
		return apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &values}}
	case reflect.Slice:
		items := schemaOf(t.Elem(), comments)
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
	case reflect.Bool:
		return apiextensionsv1.JSONSchemaProps{Type: "boolean"}
	case reflect.Int:
		return apiextensionsv1.JSONSchemaProps{Type: "integer"}
	case reflect.Float64:
		return apiextensionsv1.JSONSchemaProps{Type: "number"}
	default:
		return apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
}

func schemaOfStruct(t reflect.Type, comments map[string]string) apiextensionsv1.JSONSchemaProps {
	s := apiextensionsv1.JSONSchemaProps{
		Type: "object", Description: comments[t.Name()], Properties: map[string]apiextensionsv1.JSONSchemaProps{},
		AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{},
	}
	for i, name := range fieldNames(t) {
		property := schemaOf(t.Field(i).Type, comments)
		property.Description = comments[t.Name()+"."+name]
		s.Properties[name] = property
	}
	return s
}

func rawList(values []string) []apiextensionsv1.JSON {
	return each.Of(values, func(value string) apiextensionsv1.JSON { return raw(value) })
}

func raw(value any) apiextensionsv1.JSON {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // all values are of types of this package
	}
	return apiextensionsv1.JSON{Raw: data}
}

// tree returns value as decoded JSON.
func tree(value any) any {
	var t any
	if err := json.Unmarshal(raw(value).Raw, &t); err != nil {
		panic(err) // it was encoded a moment ago
	}
	return t
}

// setDefaults sets the defaults of the fields of s, of which some have fields themselves.
func setDefaults(s *apiextensionsv1.JSONSchemaProps, defaults any) {
	if defaults == nil {
		return
	}
	fields, ok := defaults.(map[string]any)
	if !ok || len(s.Properties) == 0 {
		value := raw(defaults)
		s.Default = &value
		return
	}
	for name, value := range fields {
		if property, ok := s.Properties[name]; ok && !slices.Contains(s.Required, name) {
			setDefaults(&property, value)
			s.Properties[name] = property
		}
	}
}
