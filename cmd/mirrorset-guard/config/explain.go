package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
)

// A Field is one field of configuration files.
type Field struct {
	// Path is its path without indices ("exemptions.images"), "" for the whole file.
	Path string
	// Type is what it holds, for people: "string", "list of strings".
	Type string
	// Default is the default as JSON, "" if there is none.
	Default     string
	Description string
	// Values are the values there are; none if there are too many to list.
	Values []string
	// Fields are those below it, in the order of the types.
	Fields []Field
}

// Reference returns the whole file as a Field.
func Reference() Field {
	return fieldOf("", Schema(), reflect.TypeFor[v1alpha1.GuardConfiguration]())
}

func fieldOf(path string, s apiextensionsv1.JSONSchemaProps, t reflect.Type) Field {
	f := Field{Path: path, Type: typeName(s), Description: s.Description}
	if s.Default != nil {
		f.Default = string(s.Default.Raw)
	}
	leaf := s
	for {
		switch {
		case leaf.Items != nil:
			leaf = *leaf.Items.Schema
		case leaf.AdditionalProperties != nil && leaf.AdditionalProperties.Schema != nil:
			leaf = *leaf.AdditionalProperties.Schema
		default:
			f.Values = texts(leaf.Enum)
			f.Fields = fieldsOf(path, leaf, structIn(t))
			return f
		}
	}
}

// fieldsOf returns the fields of a struct; none if t is nil.
func fieldsOf(path string, s apiextensionsv1.JSONSchemaProps, t reflect.Type) []Field {
	if t == nil {
		return nil
	}
	var fields []Field
	for i, name := range fieldNames(t) {
		fields = append(fields, fieldOf(strings.TrimPrefix(path+"."+name, "."), s.Properties[name], t.Field(i).Type))
	}
	return fields
}

// structIn returns the struct that t is, or that it is a list or map of, or nil.
func structIn(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

func texts(values []apiextensionsv1.JSON) []string {
	var list []string
	for _, value := range values {
		var s string
		if json.Unmarshal(value.Raw, &s) == nil { // else it is a spelling of another
			list = append(list, s)
		}
	}
	return list
}

func typeName(s apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.Items != nil:
		return "list of " + typeName(*s.Items.Schema) + "s"
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map from string to " + typeName(*s.AdditionalProperties.Schema)
	case s.Pattern != "":
		return "duration"
	default:
		return cmp.Or(s.Type, "string")
	}
}

// Explain says what the field at a path is; "" is the whole file. Indices in the path are
// passed over.
func Explain(path string) (string, error) {
	f := Reference()
	for _, name := range strings.FieldsFunc(indices.ReplaceAllString(path, ""), func(r rune) bool { return r == '.' }) {
		next, err := f.child(name)
		if err != nil {
			return "", err
		}
		f = next
	}
	return f.explanation(), nil
}

func (f Field) child(name string) (Field, error) {
	var names []string
	for _, c := range f.Fields {
		if c.name() == name {
			return c, nil
		}
		names = append(names, c.name())
	}
	if len(names) == 0 {
		return Field{}, fmt.Errorf("%s has no fields", f.Path)
	}
	return Field{}, fmt.Errorf("no field %q%s", strings.TrimPrefix(f.Path+"."+name, "."), didYouMean(name, names))
}

// name is the last part of the path.
func (f Field) name() string { return f.Path[strings.LastIndexByte(f.Path, '.')+1:] }

// explanationWidth is how many columns an explanation has.
const explanationWidth = 80

func (f Field) explanation() string {
	var b strings.Builder
	if f.Path == "" {
		fmt.Fprintf(&b, "%s, %s\n", v1alpha1.Kind, v1alpha1.APIVersion)
	} else {
		fmt.Fprintf(&b, "%s: %s\n", f.Path, f.Type)
	}
	if len(f.Values) > 0 {
		fmt.Fprintf(&b, "  one of %s\n", strings.Join(f.Values, ", "))
	}
	if f.Default != "" {
		fmt.Fprintf(&b, "  default: %s\n", f.Default)
	}
	fmt.Fprintf(&b, "\n%s\n", wrap(f.Description))
	if len(f.Fields) > 0 {
		b.WriteString("\nFields:\n")
	}
	for _, c := range f.Fields {
		fmt.Fprintf(&b, "  %-20s %s\n", c.name(), c.Type)
	}
	return b.String()
}

// wrap breaks a line at spaces.
func wrap(line string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(line) {
		switch {
		case column == 0:
		case column+1+len(word) > explanationWidth:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
