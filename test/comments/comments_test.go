// Package comments holds comments, files and functions to what a reader can use.
package comments

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// riddle is how a comment begins that says what a type is by another question.
var riddle = regexp.MustCompile(`^(A|An) \w+ (is|are) (what|how|why|who|whom|whether|which|where|when)\b`)

// What may be the longest file and function, in lines: a longer one has a seam.
const (
	maxFile     = 500
	maxFunction = 60
)

// TestShape: the comment of a type begins with a noun, "podState is the health of a pod" and not "A podState
// is how a pod does", and no file or function is longer than can be kept in view.
func TestShape(t *testing.T) {
	types := 0
	eachFile(t, func(path string, set *token.FileSet, file *ast.File) {
		lines := func(n ast.Node) int { return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1 }
		if n := set.File(file.Pos()).LineCount(); n > maxFile {
			t.Errorf("%s: %d lines, more than %d: split it along a seam", path, n, maxFile)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && lines(f) > maxFunction {
				t.Errorf("%s: %s has %d lines, more than %d", path, f.Name.Name, lines(f), maxFunction)
			}
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				types++
				if line, _, _ := strings.Cut(g.Doc.Text(), "\n"); riddle.MatchString(line) {
					t.Errorf("%s: %q: say what it is with a noun", path, line)
				}
			}
		}
	})
	if types < 400 {
		t.Errorf("only %d types were found", types)
	}
}

// eachFile calls visit with every source of the product.
func eachFile(t *testing.T, visit func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	for _, root := range []string{"api", "certs", "cmd", "internal", "inventory", "manifests", "policy", "review", "webhook"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err == nil {
				visit(path, set, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
