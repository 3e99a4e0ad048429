package v1alpha1

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/internal/typedoc"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
)

// TestDocument: the reference in the documentation is that of the types, so that no field changes
// its name unseen.
func TestDocument(t *testing.T) {
	golden.Part(t, "../../docs/documents.md", "<!-- begin: made from the types -->\n", "<!-- end -->\n", reference(t))
}

// reference has a table for each document, and then one for each type in it; apiVersion and kind, which the page explains, are left out.
func reference(t *testing.T) string {
	t.Helper()
	comments := typeComments(t)
	types := []reflect.Type{
		reflect.TypeFor[Review](), reflect.TypeFor[Explanation](), reflect.TypeFor[Rendering](), reflect.TypeFor[Inventory](),
		reflect.TypeFor[RolloutStatus](), reflect.TypeFor[Diagnosis](), reflect.TypeFor[Verification](), reflect.TypeFor[RolloutEvent](), reflect.TypeFor[SyncEvent](),
		reflect.TypeFor[Deletion](), reflect.TypeFor[KeepList](), reflect.TypeFor[ReleaseReview](),
	}
	known := map[reflect.Type]bool{}
	for _, of := range types {
		known[of] = true
	}
	var b strings.Builder
	for i := 0; i < len(types); i++ { // which grows
		of := types[i]
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", of.Name(), text.Capital(isA.ReplaceAllString(comments[of.Name()], "")))
		_, isDocument := of.FieldByName("APIVersion")
		var names []string // of fields that share a line, with their types
		comment := ""      // about the first of them
		flush := func() {
			if line := "- " + strings.Join(names, ", "); comment != "" {
				fmt.Fprintf(&b, "%s: %s\n", line, inJSON(of, verb.ReplaceAllString(comment, "")))
			} else if names != nil {
				fmt.Fprintln(&b, line)
			}
			names = nil
		}
		for i := range of.NumField() {
			field := of.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" || isDocument && (name == "apiVersion" || name == "kind") {
				continue
			}
			kind, inner := kindOf(field.Type)
			if inner != nil && !known[inner] {
				known[inner] = true
				types = append(types, inner)
			}
			own := comments[of.Name()+"."+name]
			isAbout := regexp.MustCompile(`\b` + field.Name + `\b`).MatchString(comment)
			if own != "" || comment != "" && !isAbout {
				flush()
				comment = own
			}
			if options != "" {
				name += "?"
			}
			names = append(names, strings.TrimSuffix("`"+name+"` "+kind, " "))
		}
		flush()
		b.WriteString("\n")
	}
	if len(comments) == 0 || len(known) < 30 {
		t.Errorf("%d types with %d comments: these are not all", len(known), len(comments))
	}
	return b.String()
}

// isA is how the comment of a type begins, verb how that of a field does that says what it holds.
var (
	isA  = regexp.MustCompile(`^(?:An? )?\w+ (?:is|are) `)
	verb = regexp.MustCompile(`^[a-z]\w*(?:, [A-Z]\w+)*(?: and [A-Z]\w+)? (?:is|are) `)
)

// inJSON gives the fields of a type that a comment names their names in JSON. What stands in quotes is a value.
func inJSON(of reflect.Type, comment string) string {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		comment = regexp.MustCompile(`"?\b`+field.Name+`\b"?`).ReplaceAllStringFunc(comment, func(found string) string {
			if found != field.Name {
				return found
			}
			return "`" + name + "`"
		})
	}
	return comment
}

// typeComments returns the comments of all types and their fields.
func typeComments(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, comment := range typedoc.Comments(string(source)) {
			all[name] = comment
		}
	}
	return all
}

// kindOf says what a value is in JSON, "" for a string, and which type it holds, if any.
func kindOf(of reflect.Type) (string, reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer:
		return kindOf(of.Elem())
	case reflect.String:
		return "", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "number", nil
	case reflect.Slice:
		name, inner := kindOf(of.Elem())
		if name == "" {
			name = "string"
		}
		return name + "[]", inner
	case reflect.Map:
		return "object of numbers", nil
	case reflect.Struct:
		if of.PkgPath() == "time" {
			return "time", nil
		}
		return fmt.Sprintf("[%s](#%s)", of.Name(), strings.ToLower(of.Name())), of
	default:
		panic("a field of type " + of.String())
	}
}
