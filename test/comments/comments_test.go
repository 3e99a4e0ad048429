// Package comments holds the comments of types to what a reader can use.
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

// TestTypeCommentsBeginWithANoun: "podState is the health of a pod", and not "A podState is how a
// pod does".
func TestTypeCommentsBeginWithANoun(t *testing.T) {
	types := 0
	for _, root := range []string{"api", "certs", "cmd", "internal", "inventory", "manifests", "policy", "review", "webhook"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
					types++
					if line, _, _ := strings.Cut(g.Doc.Text(), "\n"); riddle.MatchString(line) {
						t.Errorf("%s: %q: say what it is with a noun", path, line)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if types < 400 {
		t.Errorf("only %d types were found", types)
	}
}
