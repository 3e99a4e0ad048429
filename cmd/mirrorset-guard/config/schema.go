package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

// schemaDialect is the one that a structural schema of Kubernetes is a part of.
const schemaDialect = "http://json-schema.org/draft-04/schema#"

// Schema returns the JSON schema of configuration files, made from the types, their tags and comments,
// and the defaults.
func Schema() apiextensionsv1.JSONSchemaProps {
	s := fieldsSchema()
	for name, constant := range map[string]string{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind} {
		property := s.Properties[name]
		property.Enum = rawList([]string{constant})
		s.Properties[name] = property
		s.Required = append(s.Required, name)
	}
	slices.Sort(s.Required)
	var defaults any
	if err := json.Unmarshal(raw(Default().GuardConfiguration).Raw, &defaults); err != nil {
		panic(err) // it was encoded a moment ago
	}
	setDefaults(&s, defaults)
	return s
}

// SchemaJSON returns Schema as a file, in which what allows no other fields says so: Kubernetes' schemas
// do not.
func SchemaJSON() ([]byte, error) {
	s := Schema()
	s.Schema = schemaDialect
	updates := s.Properties["updates"]
	updates.Type, updates.Enum = "", append(updates.Enum, raw(false)) // as readers of YAML 1.1, Helm's among them, read off
	s.Properties["updates"] = updates
	data, err := json.MarshalIndent(closed(s), "", "  ")
	return append(data, '\n'), err
}

func closed(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	if s.Items != nil {
		items := closed(*s.Items.Schema)
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
	}
	if s.Properties != nil {
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{}
	}
	for name, property := range s.Properties {
		s.Properties[name] = closed(property)
	}
	return s
}

func fieldsSchema() apiextensionsv1.JSONSchemaProps {
	return schemaOf(reflect.TypeFor[v1alpha1.GuardConfiguration](), v1alpha1.Comments())
}

func schemaOf(t reflect.Type, comments map[string]string) apiextensionsv1.JSONSchemaProps {
	switch {
	case t == reflect.TypeFor[v1alpha1.Duration]():
		return apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: `^([0-9]{1,6}([.][0-9]+)?(ns|us|ms|s|m|h))+$`}
	case t.Implements(reflect.TypeFor[v1alpha1.Enum]()):
		return apiextensionsv1.JSONSchemaProps{Type: "string", Enum: rawList(reflect.Zero(t).Interface().(v1alpha1.Enum).Values())}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), comments)
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
	s := apiextensionsv1.JSONSchemaProps{Type: "object", Description: comments[t.Name()], Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := schemaOf(f.Type, comments)
		property.Description = comments[t.Name()+"."+name]
		if property.Minimum = number(f.Tag.Get("minimum")); property.Minimum != nil {
			property.Maximum = number(f.Tag.Get("maximum"))
		}
		if pattern := f.Tag.Get("pattern"); property.Items != nil {
			property.Items.Schema.Pattern = pattern
		} else if pattern != "" {
			property.Pattern = pattern
		}
		if f.Tag.Get("required") != "" {
			s.Required = append(s.Required, name)
		}
		s.Properties[name] = property
	}
	return s
}

// number returns the number in a tag, nil if there is none.
func number(tag string) *float64 {
	n, err := strconv.ParseFloat(tag, 64)
	if err != nil {
		return nil
	}
	return &n
}

func rawList(values []string) []apiextensionsv1.JSON {
	return convert.Each(values, func(value string) apiextensionsv1.JSON { return raw(value) })
}

func raw(value any) apiextensionsv1.JSON {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // all values are of types of this package
	}
	return apiextensionsv1.JSON{Raw: data}
}

// setDefaults sets the defaults of the fields of s, and of theirs.
func setDefaults(s *apiextensionsv1.JSONSchemaProps, defaults any) {
	fields, ok := defaults.(map[string]any)
	if !ok || len(s.Properties) == 0 {
		value := raw(defaults)
		s.Default = &value
		return
	}
	for name, value := range fields {
		if property := s.Properties[name]; !slices.Contains(s.Required, name) {
			setDefaults(&property, value)
			s.Properties[name] = property
		}
	}
}
