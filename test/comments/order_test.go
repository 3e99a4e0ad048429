package comments

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The numbers that may only fall: who makes one smaller writes it here.
const (
	// maxRepeated is how many names of types are declared in three places or more.
	maxRepeated = 39
	// maxClimbing is how many arrows between files of policy and the packages below it climb.
	maxClimbing = 8
)

// TestRepeatedNames: a name that many types share tells little about each of them.
func TestRepeatedNames(t *testing.T) {
	declared := map[string]int{}
	eachFile(t, func(_ string, _ *token.FileSet, file *ast.File) {
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, spec := range g.Specs {
					declared[spec.(*ast.TypeSpec).Name.Name]++
				}
			}
		}
	})
	maps.DeleteFunc(declared, func(_ string, n int) bool { return n < 3 })
	if n := len(declared); n > maxRepeated {
		t.Errorf("%d names of types are declared three times or more, and %d were: %v", n, maxRepeated, declared)
	}
}

// TestArrowsOfPolicy: the files of a package have an order in which each rests on those below it, but for few.
func TestArrowsOfPolicy(t *testing.T) {
	folders := map[string]map[string]*ast.File{}
	eachFile(t, func(path string, _ *token.FileSet, file *ast.File) {
		folder := filepath.Dir(path)
		if !strings.HasPrefix(filepath.ToSlash(folder), "../../policy") {
			return
		}
		if folders[folder] == nil {
			folders[folder] = map[string]*ast.File{}
		}
		folders[folder][strings.TrimSuffix(filepath.Base(path), ".go")] = file
	})
	climbing := 0
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		arrows := arrowsOf(folders[folder])
		place := map[string]int{}
		for i, file := range order(arrows) {
			place[file] = i
		}
		for from, rests := range arrows {
			for to, why := range rests {
				if place[to] > place[from] {
					climbing++
					t.Logf("%s: %s rests on %s, which is above it, for %s", folder, from, to, why)
				}
			}
		}
	}
	if climbing > maxClimbing {
		t.Errorf("%d arrows climb, and %d did: run this with -v, and move what they rest on", climbing, maxClimbing)
	}
	t.Logf("%d arrows climb", climbing)
}

// arrowsOf returns, for each file of a package, the files that it rests on, with a name that it uses of each: of what is declared at the
// top, or of a method whose name no other method or field of the package has.
func arrowsOf(files map[string]*ast.File) map[string]map[string]string {
	tops, methods := map[string]string{}, map[string][]string{}
	for name, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, id := range f.Names {
						methods[id.Name] = append(methods[id.Name], "")
					}
				}
			}
			return true
		})
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[d.Name.Name] = append(methods[d.Name.Name], name)
				} else {
					tops[d.Name.Name] = name
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						tops[s.Name.Name] = name
					case *ast.ValueSpec:
						for _, id := range s.Names {
							tops[id.Name] = name
						}
					}
				}
			}
		}
	}
	arrows := map[string]map[string]string{}
	for name, file := range files {
		rests := map[string]string{}
		add := func(to, why string) {
			if to != "" && to != name && (rests[to] == "" || why < rests[to]) {
				rests[to] = why
			}
		}
		// What the parser resolves within a file is enough: the rest is of other files.
		for _, id := range file.Unresolved {
			add(tops[id.Name], id.Name)
		}
		fields := map[ast.Expr]bool{} // what is compared, or selected from
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				fields[n.X], fields[n.Y] = true, true
			case *ast.SelectorExpr:
				fields[n.X] = true
				if !fields[n] && len(methods[n.Sel.Name]) == 1 && !isImported(file, n.X) {
					add(methods[n.Sel.Name][0], n.Sel.Name)
				}
			}
			return true
		})
		arrows[name] = rests
	}
	return arrows
}

// isImported reports whether x names a package that file imports under the last part of its path.
func isImported(file *ast.File, x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Obj == nil && slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return strings.HasSuffix(s.Path.Value, "/"+id.Name+`"`) })
}

// order puts files in an order in which few rest on later ones: those that rest on nothing left first, those that nothing left rests
// on last, and in between the one on which the most others rest for each that it rests on.
func order(arrows map[string]map[string]string) []string {
	left := map[string]bool{}
	for file := range arrows {
		left[file] = true
	}
	var low, high []string
	for len(left) > 0 {
		below, above := map[string]int{}, map[string]int{}
		for from := range left {
			for to := range arrows[from] {
				if left[to] {
					below[from]++
					above[to]++
				}
			}
		}
		files := slices.Sorted(maps.Keys(left))
		var next string
		if i := slices.IndexFunc(files, func(f string) bool { return below[f] == 0 }); i >= 0 {
			next = files[i]
			low = append(low, next)
		} else if i := slices.IndexFunc(files, func(f string) bool { return above[f] == 0 }); i >= 0 {
			next = files[i]
			high = append(high, next)
		} else {
			next = slices.MaxFunc(files, func(a, b string) int { return cmp.Compare(above[a]*below[b], above[b]*below[a]) })
			low = append(low, next)
		}
		delete(left, next)
	}
	slices.Reverse(high)
	return append(low, high...)
}
