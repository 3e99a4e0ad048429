package v1alpha1

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/internal/typedoc"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// TestDocument: the schema in the documentation is that of the types.
func TestDocument(t *testing.T) {
	golden.Part(t, "../../../docs/audit.md", "<!-- begin: made from the types -->\n", "<!-- end -->\n", reference(t))
}

// verb is how the comment of a field begins that says what it holds.
var verb = regexp.MustCompile(`^[a-zA-Z]\w* (?:is|are) `)

// reference has a list for each kind of line, and then one for each type in it.
func reference(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("types.go")
	if err != nil {
		t.Fatal(err)
	}
	comments := typedoc.Comments(string(source))
	types := []reflect.Type{reflect.TypeFor[Decision](), reflect.TypeFor[Confirmation](), reflect.TypeFor[Loss]()}
	known := map[reflect.Type]bool{}
	var b strings.Builder
	for i := 0; i < len(types); i++ { // which grows
		of := types[i]
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", of.Name(), comments[of.Name()])
		var plain []string
		for i := range of.NumField() {
			field := of.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "apiVersion" || name == "kind" && i == 1 {
				continue
			}
			comment := comments[of.Name()+"."+name]
			kind, inner := kindOf(field.Type)
			if inner != nil && !known[inner] {
				known[inner] = true
				types = append(types, inner)
			}
			if options != "" {
				name += "?"
			}
			line := strings.TrimSuffix("`"+name+"` "+kind, " ")
			if comment == "" { // such fields share a line
				plain = append(plain, line)
				continue
			}
			fmt.Fprintf(&b, "- %s: %s\n", line, verb.ReplaceAllString(comment, ""))
		}
		if len(plain) > 0 {
			fmt.Fprintf(&b, "- %s\n", strings.Join(plain, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// kindOf says what a value is in JSON, "" for a string, and which type of this package it holds, if any.
func kindOf(of reflect.Type) (string, reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer:
		return kindOf(of.Elem())
	case reflect.String:
		return "", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int, reflect.Float64:
		return "number", nil
	case reflect.Slice:
		kind, inner := kindOf(of.Elem())
		return kind + "[]", inner
	case reflect.Struct:
		switch of.PkgPath() {
		case "time":
			return "time", nil
		case reflect.TypeFor[Decision]().PkgPath():
			return fmt.Sprintf("[%s](#%s)", of.Name(), strings.ToLower(of.Name())), of
		default:
			return fmt.Sprintf("[%s](documents.md#%s)", of.Name(), strings.ToLower(of.Name())), nil
		}
	default:
		panic("a field of type " + of.String())
	}
}
