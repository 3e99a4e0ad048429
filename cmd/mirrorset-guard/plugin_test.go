package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
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

const inUse = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
` + clitest.CartDeployment + `
---
apiVersion: batch/v1
kind: CronJob
metadata: {namespace: shop, name: bill}
spec: {schedule: "@daily", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: bill, image: "quay.example.com/shop/bill:v2"}]}}}}}
---
` + clitest.WatchPool

// TestCompletion: bash completes by the script of the program; and, of the plugin, by kubectl's own, which
// asks the program that it documents. What is offered is in the cluster or the dump.
func TestCompletion(t *testing.T) {
	skip.IfShort(t, "starts an API server")
	c := clitest.NewCluster(t)
	for _, object := range strings.Split(inUse, "\n---\n") {
		c.Apply(t, object)
	}
	dump := clitest.Written(t, "dump.yaml", inUse)
	s := newShell(t, c.Kubeconfig, "mirrorset-guard", "kubectl-mirrorset", "kubectl_complete-mirrorset")
	if err := os.Symlink(c.KubectlPath(), filepath.Join(s.path, "kubectl")); err != nil {
		t.Fatal(err)
	}
	const images = "quay.example.com/shop/bill:v2 quay.example.com/shop/cart:v1"
	for _, tc := range []struct{ args, want string }{
		{"explain |", images},
		{"explain quay.example.com/shop/b|", "quay.example.com/shop/bill:v2"},
		{"explain quay.example.com/shop/bill:v2 |", "quay.example.com/shop/cart:v1"},
		{"explain -n shop quay|", images},
		{"explain -n default quay|", ""},
		{"explain --from " + dump + " quay|", images},
		{"inventory --from " + dump + " -n |", "shop"},
		{"inventory --registry |", "quay.example.com"},
		{"inventory -n sh|", "shop"},
		{"rollout pause |", "worker"},
		{"rollout watch --pool wor|", "worker"},
		{"check -o s|", "sarif"},
		{"audit --verdict allowed,over|", `allowed\,overridden`},
		{"config explain exemptions.im|", "exemptions.images"},
		{"rollout diag|", "diagnose"},
		{"check --context |", "envtest"},
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

	t.Run("the script that completion prints", func(t *testing.T) {
		if err := os.Remove(filepath.Join(s.path, "kubectl_complete-mirrorset")); err != nil {
			t.Fatal(err)
		}
		out, code := s.run(t, "cd "+s.path+" && kubectl mirrorset completion > kubectl_complete-mirrorset && chmod +x kubectl_complete-mirrorset")
		if code != 0 {
			t.Fatal(out)
		}
		if got := s.completed(t, "kubectl", "kubectl", "mirrorset", "explain", "quay.example.com/shop/b"); got != "quay.example.com/shop/bill:v2" {
			t.Errorf("bash offers %q", got)
		}
	})
	t.Run("under kubectl", func(t *testing.T) {
		for args, want := range map[string]string{
			"check --help":                         "  kubectl mirrorset check -f FILE [flags]\n",
			"check -f none.yaml":                   "kubectl mirrorset: stat none.yaml: no such file or directory\n",
			"rollout pause":                        "kubectl mirrorset: which pools? kubectl mirrorset rollout pause POOL...; kubectl mirrorset rollout status lists them\n",
			"rollout verify extra":                 `kubectl mirrorset: kubectl mirrorset rollout verify takes no arguments, but got "extra"` + "\n",
			"inventory --from " + dump + " -o nix": `kubectl mirrorset: --output "nix": choose one of table, wide, json, yaml, csv, refs, html` + "\n",
		} {
			if out, _ := s.run(t, "kubectl mirrorset "+args); !strings.Contains(out, want) || strings.Contains(out, "mirrorset-guard check") {
				t.Errorf("%s:\n%s\nlacks %s", args, out, want)
			}
		}
	})
}

// TestCompletionGivesUp: an API server that takes connections and says nothing, and a dump that is a pipe
// without a writer, keep the user waiting for moments, and no word is in the middle of what is typed.
func TestCompletionGivesUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	kubeconfig := func(server string) string {
		return clitest.Written(t, "kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: \""+server+"\"}}]\ncontexts: [{name: x, context: {cluster: x}}]\ncurrent-context: x\n")
	}
	s := newShell(t, "", "mirrorset-guard")
	pipe := filepath.Join(s.path, "pipe")
	if out, code := s.run(t, "mkfifo "+pipe); code != 0 {
		t.Fatal(out)
	}
	for _, tc := range []struct{ reason, kubeconfig, args string }{
		{"silent", kubeconfig("http://" + silent.Addr().String()), "explain"},
		{"no API server", kubeconfig("http://127.0.0.1:1"), "explain"},
		{"no cluster", filepath.Join(s.path, "none"), "explain"},
		{"broken", clitest.Written(t, "kubeconfig", "kind: ["), "rollout pause"},
		{"a pipe", "", "explain --from " + pipe},
		{"standard input", "", "explain --from -"},
		{"no dump", "", "inventory --from none -n"},
		{"no such command", "", "chek -n"},
		{"no such flag", "", "check --none"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(s.path, "mirrorset-guard"), append(append([]string{"__complete"}, strings.Fields(tc.args)...), "")...)
			cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0", "KUBECONFIG="+tc.kubeconfig, "HOME="+s.path)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			if ctx.Err() != nil {
				t.Error("it goes on for a minute")
			}
			if errs.Len() > 0 || strings.Trim(out.String(), ":0123456789\n") != "" {
				t.Errorf("%v, stdout %q, stderr %q", err, out.String(), errs.String())
			}
		})
	}
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
	if code := run(t.Context(), []string{"mirrorset-guard", "__completeNoDesc", ""}, strings.NewReader(""), &out, &out); code != 0 {
		t.Fatal(out.String())
	}
	for _, name := range strings.Fields(out.String()) {
		text := "mirrorset-guard " + name
		if isOfCobra := name == "help" || name == "completion" || name[0] == ':'; !isOfCobra && cli.Program("oc mirrorset").In(text) == text {
			t.Errorf("%s is not in the words of a plugin: see cmd/mirrorset-guard/internal/cli/program.go", name)
		}
	}
}
