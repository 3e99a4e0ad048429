package v1alpha1

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mirrorset-guard/mirrorset-guard/internal/typedoc"
)

var update = flag.Bool("update", false, "write the tables in docs that are made from the types")

const (
	document       = "../../../docs/audit.md"
	begin, endMark = "<!-- begin: made from the types -->\n", "<!-- end -->\n"
)

// TestDocument: the schema in the documentation is that of the types.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(data), begin)
	table, after, found := strings.Cut(rest, endMark)
	if !found {
		t.Fatalf("%s has no place for the tables", document)
	}
	want := tables(t)
	if *update {
		if err := os.WriteFile(document, []byte(before+begin+want+endMark+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("docs/audit.md is out of date (-want +got); go test ./api/audit/v1alpha1 -update writes it:\n%s", diff)
	}
}

func tables(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("types.go")
	if err != nil {
		t.Fatal(err)
	}
	comments := typedoc.Comments(string(source))
	var b strings.Builder
	for _, root := range []reflect.Type{reflect.TypeFor[Decision](), reflect.TypeFor[Confirmation](), reflect.TypeFor[Loss]()} {
		fmt.Fprintf(&b, "### %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", root.Name(), comments[root.Name()])
		rows(t, &b, "", root, comments)
		b.WriteString("\n")
	}
	return b.String()
}

// rows writes a row for each field of a struct, and of the structs in it.
func rows(t *testing.T, b *strings.Builder, path string, of reflect.Type, comments map[string]string) {
	t.Helper()
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		comment := comments[of.Name()+"."+name]
		if !strings.HasSuffix(comment, ".") {
			t.Errorf("%s.%s: %q", of.Name(), name, comment)
		}
		kind, inner := jsonType(field.Type)
		if options == "omitempty" || options == "omitzero" {
			kind += ", may be left out"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", path, name, kind, comment)
		if inner != nil {
			rows(t, b, path+name+".", inner, comments)
		}
	}
}

// jsonType says what a value is in JSON, and which struct it holds, if any.
func jsonType(t reflect.Type) (string, reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int, reflect.Float64:
		return "number", nil
	case reflect.Slice:
		if t == reflect.TypeFor[[]byte]() {
			return "string", nil
		}
		if t.Elem().Kind() == reflect.Uint8 {
			return "object", nil // json.RawMessage
		}
		name, inner := jsonType(t.Elem())
		return "list of " + name + "s", inner
	case reflect.Struct:
		if t.PkgPath() == "time" {
			return "time", nil
		}
		return "object", t
	case reflect.Map:
		return "object", nil
	default:
		panic("a field of type " + t.String())
	}
}
