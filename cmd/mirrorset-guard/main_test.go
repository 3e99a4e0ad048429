package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/app"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestEmptyFlag: no command takes the cluster at hand for the one that a variable of the shell was to name.
func TestEmptyFlag(t *testing.T) {
	for command := range strings.SplitSeq("check,plan,pin,release x,deletion x,keep x,sync,explain x,render,inventory,snapshot,"+
		"rollout,rollout status,rollout verify,rollout diagnose,rollout watch,rollout pause x,rollout resume -y x", ",") {
		got := clitest.Invoke(t, runUnderOwnName, "", strings.Fields(command+" --context=")...)
		if got.Code != 2 || got.Err != "mirrorset-guard: --context: it is empty; is a variable of the shell not set?\n" {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// TestLogger: every command sets the logger of controller-runtime, which else complains
// after 30 s, with a stack trace. Only the first logger of a process counts, so that each
// command gets a process, this test's own. What refuses an empty flag sets it for all but serve.
func TestLogger(t *testing.T) {
	if command := os.Getenv("LOGGER_OF_COMMAND"); command != "" {
		app.Run(context.Background(), append([]string{"mirrorset-guard"}, strings.Fields(command)...), strings.NewReader(""), io.Discard, io.Discard)
		log.SetLogger(funcr.New(func(_, args string) { t.Error("no logger was set before this one: ", args) }, funcr.Options{}))
		log.Log.Info("anybody there?")
		return
	}
	for _, command := range []string{"check -f none.yaml", "version", "serve --kubeconfig none"} {
		t.Run(command, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLogger$")
			child.Env = append(os.Environ(), "LOGGER_OF_COMMAND="+command)
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestVersion: the version says whether FIPS 140-3 mode is on, which is that of a process.
func TestVersion(t *testing.T) {
	if os.Getenv("PRINT_VERSION") != "" {
		t.Log(clitest.Invoke(t, runUnderOwnName, "", "version").Out)
		return
	}
	for mode, want := range map[string]string{"off": ", off", "on": ", on", "only": ", on; what it does not approve is refused"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVersion$", "-test.v")
		child.Env = append(os.Environ(), "PRINT_VERSION=1", "GODEBUG=fips140="+mode)
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "mirrorset-guard devel ") || !strings.Contains(string(out), "  FIPS 140-3 module latest"+want+"\n") {
			t.Errorf("fips140=%s: want %q: %v\n%s", mode, want, err, out)
		}
	}
}

// runUnderOwnName is run without the name of the program in front of its arguments.
func runUnderOwnName(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return app.Run(ctx, append([]string{"mirrorset-guard"}, args...), stdin, stdout, stderr)
}
