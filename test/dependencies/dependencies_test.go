// Package dependencies holds the test that docs/dependencies.md lists what go.mod
// requires and the code imports.
package dependencies

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// testsOnly is the heading below which the document lists what the product is not built
// from.
const testsOnly = "\n## Only in tests\n"

func TestDocument(t *testing.T) {
	before, after, found := strings.Cut(read(t, "docs/dependencies.md"), testsOnly)
	if !found {
		t.Fatalf("no heading %q", testsOnly)
	}
	product, tests := listed(before), listed(after)
	required := direct(read(t, "go.mod"))
	if len(required) < 20 || len(product) < 20 || len(tests) == 0 {
		t.Fatalf("%d modules are required and %d + %d listed: these are not all", len(required), len(product), len(tests))
	}
	both := slices.Concat(product, tests)
	for _, module := range required {
		if !slices.Contains(both, module) {
			t.Errorf("%s is a direct dependency, and the document does not say what for", module)
		}
	}
	for i, module := range both {
		if !slices.Contains(required, module) {
			t.Errorf("%s is listed, and go.mod does not require it directly", module)
		}
		if slices.Contains(both[:i], module) {
			t.Errorf("%s is listed twice", module)
		}
	}
	imported := imports(t)
	for _, module := range required {
		used := slices.ContainsFunc(imported, func(path string) bool {
			return path == module || strings.HasPrefix(path, module+"/")
		})
		switch {
		case used && slices.Contains(tests, module):
			t.Errorf("%s is listed as used only in tests, and the product imports it", module)
		case !used && slices.Contains(product, module):
			t.Errorf("%s is listed as used by the product, which does not import it", module)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var module = regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+/[^ ,()|]+$`)

// listed returns the modules in the first column of the document's tables. What stands
// in parentheses are packages.
func listed(document string) []string {
	var modules []string
	for line := range strings.Lines(document) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		first := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cells[1], "")
		for name := range strings.SplitSeq(first, ",") {
			if name = strings.TrimSpace(name); module.MatchString(name) {
				modules = append(modules, name)
			}
		}
	}
	return modules
}

// direct returns the modules that go.mod requires itself.
func direct(goMod string) []string {
	var modules []string
	block := false
	for line := range strings.Lines(goMod) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.Contains(line, "// indirect"):
		case fields[0] == "require" && fields[1] == "(":
			block = true
		case fields[0] == "require":
			modules = append(modules, fields[1])
		case fields[0] == ")":
			block = false
		case block:
			modules = append(modules, fields[0])
		}
	}
	return modules
}

// imports returns what the product's own files import, however often.
func imports(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"test", "tools", "bin", "testdata", ".git"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			all = append(all, imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
