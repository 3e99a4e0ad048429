package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// dependents hold the tests that may notice what those of the package itself do not.
var dependents = []string{"./policy/...", "./inventory/...", "./review/...", "./test/scenarios"}

// swapped are the operators that are taken for another.
var swapped = map[token.Token]string{
	token.LAND: "||", token.LOR: "&&", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==", token.ADD: "-", token.SUB: "+",
}

// runRandom makes n faults at random places of the packages below the folders, and says which are noticed by the tests
// of the package, which by those of others, and which by none. Such a one is no failure: it may change nothing.
func runRandom(ctx context.Context, root, dir string, n int, seed uint64, folders []string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"ls-files", "--"}, folders...)...)
	cmd.Dir = root
	files, err := cmd.Output()
	if err != nil {
		return err
	}
	var all []mutation
	for _, f := range strings.Fields(string(files)) {
		if strings.HasSuffix(f, ".go") && !strings.HasSuffix(f, "_test.go") {
			if all, err = faults(all, root, f); err != nil {
				return err
			}
		}
	}
	count := map[string]int{}
	// the same seed gives the same faults
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all)) {
		if n == 0 {
			break
		}
		switch outcome, err := all[i].notice(ctx, root, dir); {
		case err != nil:
			return err
		case outcome != "": // it compiles
			n--
			count[outcome]++
			fmt.Printf("%-9s %s\n", outcome, all[i].defence)
		}
	}
	fmt.Printf("of %d places: %v\n", len(all), count)
	return nil
}

// notice says whose tests notice m: those of its own package, of others, or none; nothing if it does not compile.
func (m mutation) notice(ctx context.Context, root, dir string) (string, error) {
	overlay, err := m.overlay(root, dir)
	passes := func(args ...string) bool {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = root
		return err == nil && cmd.Run() == nil
	}
	test := []string{"test", "-ldflags=-w", "-vet=off", "-failfast", "-timeout", "5m"}
	mutated := append(test, "-overlay", overlay)
	switch {
	case !passes("build", "-overlay", overlay, "-o", os.DevNull, m.pkg):
		return "", errors.Join(err, ctx.Err())
	case !passes(append(test, m.pkg)...):
		return "", fmt.Errorf("the tests of %s fail without a mutation", m.pkg)
	case !passes(append(mutated, m.pkg)...):
		return "noticed", ctx.Err()
	case !passes(append(mutated, dependents...)...):
		return "elsewhere", ctx.Err()
	}
	return "SURVIVED", nil
}

// faults adds what may be done wrong at each place of a file.
func faults(all []mutation, root, file string) ([]mutation, error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(from, to token.Pos, format string) {
		at, end := files.Position(from), files.Position(to)
		was := string(text[at.Offset:end.Offset])
		became := strings.ReplaceAll(format, "it", was)
		all = append(all, mutation{
			defence: fmt.Sprintf("%s:%d: %.100q becomes %.100q", file, at.Line, was, became),
			file:    file, was: string(text), became: string(text[:at.Offset]) + became + string(text[end.Offset:]), pkg: "./" + filepath.Dir(file),
		})
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if other, ok := swapped[n.Op]; ok {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other)
			}
		case *ast.IfStmt:
			add(n.Cond.Pos(), n.Cond.End(), "!(it)")
		case *ast.BasicLit:
			if n.Kind == token.INT {
				add(n.Pos(), n.End(), "(it + 1)")
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt:
			add(n.Pos(), n.End(), "")
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				add(n.Pos(), n.End(), "")
			}
		}
		return true
	})
	return all, nil
}
