// Mutations takes the defences against attacks from inside the cluster away, one at a time, and runs
// the tests that are to notice. It exits with 1 if one does not, or, before any test runs, if the text of one is not
// found. The files of the tree stay as they are: the compiler is given others in their place.
//
//	cd tools && go run ./mutations [-n] [PART-OF-A-NAME]
//	cd tools && go run ./mutations -random N [-seed S] FOLDER...
//
// With -n it runs no test. With -random it makes N faults at places of the folders that the seed chooses.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// A mutation is a defence, and how it is taken away.
type mutation struct {
	// defence names the removed defence.
	defence string
	// file holds the text was, once; became is put in its place.
	file, was, became string
	// pkg has the tests of the name test, which must fail then, and pass otherwise.
	pkg, test string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	noTests := flag.Bool("n", false, "only see that the text of each mutation is there")
	random := flag.Int("random", 0, "how many faults to make at random")
	seed := flag.Uint64("seed", 1, "chooses their places")
	flag.Parse()
	if err := run(ctx, *noTests, *random, *seed, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, noTests bool, random int, seed uint64, args []string) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	var stale []error
	for _, m := range mutations {
		_, err := m.mutated(root)
		if err := errors.Join(err, m.untested(root)); err != nil {
			stale = append(stale, fmt.Errorf("STALE %s: %w", m.defence, err))
		}
	}
	if len(stale) > 0 || noTests {
		return errors.Join(stale...)
	}
	dir, err := os.MkdirTemp("", "mutations")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if random > 0 {
		return runRandom(ctx, root, dir, random, seed, args)
	}
	part := strings.Join(args, " ")
	passed := map[string]error{} // each test as it is
	var survived []string
	for _, m := range mutations {
		if !strings.Contains(m.defence, part) {
			continue
		}
		err := m.try(ctx, root, dir, passed)
		fmt.Printf("%-8s %s (%s)\n", map[bool]string{true: "noticed", false: "SURVIVED"}[err == nil], m.defence, m.test)
		if err != nil {
			survived = append(survived, fmt.Sprintf("%s: %v", m.defence, err))
		}
	}
	if len(survived) > 0 {
		return errors.New("\n" + strings.Join(survived, "\n"))
	}
	return nil
}

// try returns why m is not noticed by its test, nil if it is.
func (m mutation) try(ctx context.Context, root, dir string, passed map[string]error) error {
	key := m.pkg + " " + m.test
	if _, known := passed[key]; !known {
		passed[key] = nil
		if output, err := m.runTest(ctx, root, "-v"); err != nil || !strings.Contains(output, "--- PASS") {
			passed[key] = fmt.Errorf("the test does not pass without a mutation: %w\n%s", err, output)
		}
	}
	if passed[key] != nil {
		return passed[key]
	}
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return err
	}
	output, err := m.runTest(ctx, root, "-overlay", overlay)
	switch {
	case err == nil:
		return errors.New("the test passes all the same")
	case ctx.Err() != nil:
		return ctx.Err()
	case !strings.Contains(output, "--- FAIL") && !strings.Contains(output, "panic: test timed out"):
		return fmt.Errorf("the test does not run: %w\n%s", err, output)
	}
	return nil
}

// overlay writes the file that has the compiler take m's file for the one it names.
func (m mutation) overlay(root, dir string) (string, error) {
	text, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(mutated, text, 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): mutated}})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, replace, 0o600)
}

// mutated returns the file of m without the defence.
func (m mutation) mutated(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(m.was)); n != 1 {
		return nil, fmt.Errorf("%s holds %q %d times, want once", m.file, m.was, n)
	}
	return bytes.Replace(text, []byte(m.was), []byte(m.became), 1), nil
}

// untested returns an error if the package of m does not have its tests.
func (m mutation) untested(root string) error {
	files, err := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go"))
	var all []byte
	for _, f := range files {
		text, unread := os.ReadFile(f)
		all, err = append(all, text...), errors.Join(err, unread)
	}
	for name := range strings.SplitSeq(m.test, "|") {
		if !bytes.Contains(all, []byte("func "+name+"(t *testing.T)")) {
			err = errors.Join(err, fmt.Errorf("%s has no %s", m.pkg, name))
		}
	}
	return err
}

// testTime is many times what a test takes.
const testTime = 2 * time.Minute

func (m mutation) runTest(ctx context.Context, root string, flags ...string) (output string, err error) {
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout", testTime.String(), "-run", "^(" + m.test + ")$"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, m.pkg)...)
	cmd.Dir = root
	text, err := cmd.CombinedOutput()
	return string(text), err
}
