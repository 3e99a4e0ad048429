package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/app"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	"github.com/mirrorset-guard/mirrorset-guard/test/cluster"
	"github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// asProgram is set where this test is the program, under a link with the program's name.
const asProgram = "TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// A shell is bash with the program in its PATH, under several names.
type shell struct {
	path, kubeconfig string
}

func newShell(t *testing.T, kubeconfig string, names ...string) shell {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		skip.Now(t, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range names {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return shell{dir, kubeconfig}
}

// run runs a script and returns what it wrote, standard error included.
func (s shell) run(t *testing.T, script string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-c", script)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0", "PATH="+s.path+":"+os.Getenv("PATH"), "KUBECONFIG="+s.kubeconfig, "HOME="+s.path)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// words stands in for the function of the package bash-completion that the scripts need: it takes the line
// apart at blanks alone.
const words = `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
`

// completed returns what bash offers after the words of a line, by the completion script of a program.
func (s shell) completed(t *testing.T, program string, line ...string) string {
	t.Helper()
	quoted := make([]string, len(line))
	for i, word := range line {
		quoted[i] = "'" + word + "'"
	}
	out, _ := s.run(t, words+`source <(`+program+` completion bash)
COMP_WORDS=(`+strings.Join(quoted, " ")+`) COMP_CWORD=`+fmt.Sprint(len(line)-1)+` COMP_TYPE=9
compopt() { :; }
__start_`+program+`
printf '%s\n' "${COMPREPLY[@]}"`)
	return strings.Join(strings.Fields(descriptions.ReplaceAllString(out, "")), " ")
}

// descriptions stand behind what is offered.
var descriptions = regexp.MustCompile(`(?m) +\(.*\)$`)

// TestCompletion: bash completes by the script of the program; and, of the plugin, by kubectl's own, which
// asks the program that it documents.
func TestCompletion(t *testing.T) {
	skip.UnlessIntegration(t)
	c := cluster.New(t)
	s := newShell(t, c.Kubeconfig, "mirrorset-guard", "kubectl-mirrorset", "kubectl_complete-mirrorset")
	if err := os.Symlink(c.KubectlPath(), filepath.Join(s.path, "kubectl")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{"check -o s|", "sarif"},
		{"rollout diag|", "diagnose"},
		{"check --context |", "envtest"},
		{"explain |", ""},
	} {
		t.Run(tc.args, func(t *testing.T) {
			args := strings.Split(strings.TrimSuffix(tc.args, "|"), " ")
			if got := s.completed(t, "mirrorset-guard", append([]string{"mirrorset-guard"}, args...)...); got != tc.want {
				t.Errorf("bash offers %q, want %q", got, tc.want)
			}
			if got := s.completed(t, "kubectl", append([]string{"kubectl", "mirrorset"}, args...)...); got != tc.want {
				t.Errorf("after kubectl, bash offers %q, want %q", got, tc.want)
			}
		})
	}
	dump := clitest.Written(t, "dump.yaml", clitest.CartDeployment)
	t.Run("under kubectl", func(t *testing.T) {
		for args, want := range map[string]string{
			"check --help":                         "  kubectl mirrorset check -f FILE [flags]\n",
			"check -f none.yaml":                   "kubectl mirrorset: stat none.yaml: no such file or directory\n",
			"rollout pause":                        "kubectl mirrorset: which pools? kubectl mirrorset rollout pause POOL...; kubectl mirrorset rollout status lists them\n",
			"rollout verify extra":                 `kubectl mirrorset: kubectl mirrorset rollout verify takes no arguments, but got "extra"` + "\n",
			"inventory --from " + dump + " -o nix": `kubectl mirrorset: --output "nix": choose one of table, wide, json, yaml, refs` + "\n",
		} {
			if out, _ := s.run(t, "kubectl mirrorset "+args); !strings.Contains(out, want) || strings.Contains(out, "mirrorset-guard check") {
				t.Errorf("%s:\n%s\nlacks %s", args, out, want)
			}
		}
	})
}

// TestUnknownPlugin: a plugin under another name says under which names it is one.
func TestUnknownPlugin(t *testing.T) {
	s := newShell(t, "", "kubectl-mirrors")
	out, code := s.run(t, "kubectl-mirrors check -f x.yaml")
	if code != 2 || !strings.Contains(out, `does not know its name "kubectl-mirrors": as a plugin it is called kubectl-mirrorset or oc-mirrorset`) {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestEveryCommandIsNamed: texts that name a command of the program name it as the user calls it.
func TestEveryCommandIsNamed(t *testing.T) {
	var out bytes.Buffer
	if code := app.Run(t.Context(), []string{"mirrorset-guard", "__completeNoDesc", ""}, strings.NewReader(""), &out, io.Discard); code != 0 {
		t.Fatal(out.String())
	}
	for _, name := range strings.Fields(out.String()) {
		text := "mirrorset-guard " + name
		if isOfCobra := name == "help" || name == "completion" || name[0] == ':'; !isOfCobra && cli.Program("oc mirrorset").In(text) == text {
			t.Errorf("%s is not in the words of a plugin: see cmd/mirrorset-guard/internal/cli/program.go", name)
		}
	}
}
