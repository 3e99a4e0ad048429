package manual

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"mvdan.cc/sh/v3/syntax"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/app"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// installed is the world of a real API server, with the manifests and what OpenShift would add.
const installed = "installed"

// filledIn has what a reader would put in the place of words that stand for others.
var filledIn = strings.NewReplacer("IMAGE", "quay.io/shop/cart:v1", "/NAME", "/everything", "USER", "alice")

// nothingFound lets a search that finds nothing succeed: there is no trouble in these worlds.
const nothingFound = "grep() { command grep \"$@\" || [ $? -eq 1 ]; }\n"

// asProgram is set where this test is the guard, which it has linked already.
const asProgram = "TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(app.Run(context.Background(), append([]string{"mirrorset-guard"}, os.Args[1:]...), os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A world is a folder with files and programs, in which blocks are run.
type world struct {
	dir  string
	path string
	env  []string
	// exit is the exit code of the last command.
	exit int
	// corrections are what the page should show, if -update is given.
	corrections []correction
}

// A correction is the text that a block should show.
type correction struct {
	block Block
	lines []string
}

// TestBlocks runs the blocks that say so. Those of a page in one world are run in order, in one folder,
// so that one may use what another wrote.
func TestBlocks(t *testing.T) {
	mirror := newEmptyMirror(t)
	var control *cluster.Cluster
	ran := 0
	for _, p := range pages(t) {
		worlds := map[string]*world{}
		for _, b := range p.Blocks {
			if b.World == "" || b.isElsewhere() || b.problem() != "" {
				continue
			}
			if b.World == installed && !skip.Integration() {
				continue
			}
			if b.World == installed && control == nil {
				control = newInstalled(t)
			}
			if worlds[b.World] == nil {
				worlds[b.World] = newWorld(t, b.World, mirror, control)
			}
			ran++
			t.Run(fmt.Sprintf("%s:%d", b.Page, b.Line), func(t *testing.T) { worlds[b.World].run(t, b) })
		}
		rewrite(t, p.Path, slices.Collect(maps.Values(worlds)))
	}
	least := 8
	if skip.Integration() {
		least = 25
	}
	if ran < least {
		t.Errorf("only %d blocks were run", ran)
	}
}

// newEmptyMirror starts a registry that holds nothing, and returns the flags that lead there.
func newEmptyMirror(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v2/" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}`)
		}
	}))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "mirror.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("--registry-ca %s --allow-loopback --resolve mirror.example.com=%s", ca, strings.TrimPrefix(server.URL, "https://"))
}

// newWorld makes the folder of a world. In there, mirrorset-guard is the guard, and finds the mirror;
// oc and kubectl are kubectl.
func newWorld(t *testing.T, name, mirror string, control *cluster.Cluster) *world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{dir: t.TempDir(), path: t.TempDir()}
	w.env = []string{"HOME=" + w.dir, "PATH=" + w.path + ":" + os.Getenv("PATH"), "KUBECONFIG=/none"}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$1 $*\" in *-help*) flags= ;; check*|explain*--probe*) flags='%s' ;; esac\n%s=1 exec %s \"$@\" $flags\n", mirror, asProgram, self)
	if err := os.WriteFile(filepath.Join(w.path, "mirrorset-guard"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if name == installed {
		w.env[2] = "KUBECONFIG=" + control.Kubeconfig
		for _, program := range []string{"oc", "kubectl"} {
			if err := os.Symlink(control.KubectlPath(), filepath.Join(w.path, program)); err != nil {
				t.Fatal(err)
			}
		}
		name = "installed.files"
		for _, folder := range []string{"base", "monitoring"} {
			if err := os.CopyFS(filepath.Join(w.dir, folder), os.DirFS(filepath.Join(top, "manifests", folder))); err != nil {
				t.Fatal(err)
			}
		}
	}
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(w.dir, must(txtar.FS(archive))); err != nil {
		t.Fatal(err)
	}
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// run runs a block.
func (w *world) run(t *testing.T, b Block) {
	steps := b.Steps()
	var shown []string
	differs := false
	for _, step := range steps {
		script, err := leaveOut(step.Script, b.Without)
		if err != nil {
			t.Fatal(err)
		}
		prelude := nothingFound + fmt.Sprintf("(exit %d)\n", w.exit)
		if step.Output == nil {
			prelude = nothingFound + "set -e\n"
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", prelude+filledIn.Replace(script))
		cmd.Dir, cmd.Env = w.dir, w.env
		out, err := cmd.CombinedOutput()
		if step.Output == nil {
			if err != nil {
				t.Errorf("%s:%d: %s: %v\n%s", b.Page, step.Line, firstLine(step.Script), err, out)
			}
			continue
		}
		w.exit = cmd.ProcessState.ExitCode()
		got := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
		problem := differ(step.Output, got)
		differs = differs || problem != ""
		if problem != "" && !*golden.Update {
			t.Errorf("%s:%d: %s writes something else (-update corrects the page, but for what is left out there):\n%s", b.Page, step.Line, step.Script, problem)
		}
		shown = append(shown, "$ "+step.Script)
		shown = append(shown, got...)
	}
	if *golden.Update && differs {
		w.corrections = append(w.corrections, correction{b, shown})
	}
}

// differ compares what is shown with what was written; "..." stands for any lines.
func differ(shown, got []string) string {
	shown = trimmed(shown)
	var pattern strings.Builder
	for _, line := range shown {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		pattern.WriteString(regexp.QuoteMeta(strings.TrimRight(line, " ")) + ` *\n`)
	}
	if regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(strings.Join(trimmed(got), "\n") + "\n") {
		return ""
	}
	return cmp.Diff(shown, got)
}

// trimmed returns lines without empty ones at the end; an empty output is one without lines.
func trimmed(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// leaveOut leaves out the statements of a script with a command that has a word.
func leaveOut(script, word string) (string, error) {
	if word == "" {
		return script, nil
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	left := 0
	for _, statement := range file.Stmts {
		text := script[statement.Pos().Offset():statement.End().Offset()]
		commands, err := parse("", 0, text)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(commands, func(c Command) bool { return strings.Contains(strings.Join(c.Words, " "), word) }) {
			left++
			continue
		}
		b.WriteString(text + "\n")
	}
	if left == 0 || b.Len() == 0 {
		return "", fmt.Errorf("%q is a word of all commands, or of none: say that the block is run, or not", word)
	}
	return b.String(), nil
}

// rewrite corrects a page, from its end, so that lines before stay where they are.
func rewrite(t *testing.T, page string, worlds []*world) {
	t.Helper()
	var corrections []correction
	for _, w := range worlds {
		corrections = append(corrections, w.corrections...)
	}
	if len(corrections) == 0 {
		return
	}
	slices.SortFunc(corrections, func(a, b correction) int { return b.block.Line - a.block.Line })
	path := filepath.Join(top, page)
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(source), "\n")
	for _, c := range corrections {
		begin := c.block.Line - 1
		indent, _, _ := strings.Cut(lines[begin], "$ ")
		var corrected []string
		for _, line := range c.lines {
			corrected = append(corrected, strings.TrimRight(indent+line, " "))
		}
		lines = slices.Replace(lines, begin, begin+len(strings.Split(strings.TrimRight(c.block.Text, "\n"), "\n")), corrected...)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}
