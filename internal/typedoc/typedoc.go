// Package typedoc reads what the comments of Go types say about the fields of their JSON, so that
// a reference for users is made from them and cannot differ.
package typedoc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// Comments returns the comments of the types in a Go file, by name, and of their fields, by the
// name of the type and that of the field in JSON ("Registry.host"), each as one line. Where a
// comment begins with the name of the field, it has the name in JSON. It panics if source is not
// a Go file.
func Comments(source string) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", source, parser.ParseComments)
	if err != nil {
		panic(err) // it has been compiled
	}
	all := map[string]string{}
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		spec := general.Specs[0].(*ast.TypeSpec)
		all[spec.Name.Name] = oneLine(general.Doc)
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range fields.Fields.List {
			name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			all[spec.Name.Name+"."+name] = fieldComment(f, name)
		}
	}
	return all
}

// fieldComment returns the comment above a field or, without one, that behind it.
func fieldComment(f *ast.Field, name string) string {
	comment := oneLine(f.Doc)
	if comment == "" {
		return oneLine(f.Comment)
	}
	if rest, ok := strings.CutPrefix(comment, f.Names[0].Name); ok {
		return name + rest
	}
	return comment
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }
