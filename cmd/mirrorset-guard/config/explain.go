package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

var indices = regexp.MustCompile(`\[[^]]*\]`)

// Explain says what the field at a path is; "" is the whole file. Indices in the path are
// passed over.
func Explain(path string) (string, error) {
	path = indices.ReplaceAllString(path, "")
	s, err := at(path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if path == "" {
		fmt.Fprintf(&b, "%s, %s\n", v1alpha1.Kind, v1alpha1.APIVersion)
	} else {
		fmt.Fprintf(&b, "%s: %s\n", path, typeName(s))
	}
	if s.Default != nil {
		fmt.Fprintf(&b, "  default: %s\n", s.Default.Raw)
	}
	fmt.Fprintf(&b, "\n%s\n", s.Description)
	leaf := inner(s)
	if len(leaf.Properties) > 0 {
		b.WriteString("\nFields:\n")
	}
	for _, name := range names(leaf) {
		fmt.Fprintf(&b, "  %-20s %s\n", name, typeName(leaf.Properties[name]))
	}
	return b.String(), nil
}

// at returns the schema of the field at a path without indices.
func at(path string) (apiextensionsv1.JSONSchemaProps, error) {
	s := Schema()
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
		leaf := inner(s)
		next, ok := leaf.Properties[name]
		switch {
		case len(leaf.Properties) == 0:
			return s, fmt.Errorf("no field %q: what is above it has no fields", path)
		case !ok:
			return s, fmt.Errorf("no field %q; there are %s", path, strings.Join(names(leaf), ", "))
		}
		s = next
	}
	return s, nil
}

// names returns the names of the fields of s, sorted.
func names(s apiextensionsv1.JSONSchemaProps) []string { return slices.Sorted(maps.Keys(s.Properties)) }

// inner returns the schema of what s is a list or a map of, or s.
func inner(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	switch {
	case s.Items != nil:
		return *s.Items.Schema
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return *s.AdditionalProperties.Schema
	default:
		return s
	}
}

func typeName(s apiextensionsv1.JSONSchemaProps) string {
	name := cmp.Or(inner(s).Type, "string")
	switch {
	case s.Items != nil:
		name = "list of " + name + "s"
	case s.AdditionalProperties != nil:
		name = "map from string to " + name
	}
	if values := inner(s).Enum; len(values) > 0 {
		name += ": " + strings.Join(convert.Each(values, func(v apiextensionsv1.JSON) string { return strings.Trim(string(v.Raw), `"`) }), ", ")
	}
	return name
}
