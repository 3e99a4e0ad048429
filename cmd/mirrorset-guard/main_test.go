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
)

// TestLogger: every command sets the logger of controller-runtime, which else complains
// after 30 s, with a stack trace. Only the first logger of a process counts, so that each
// command gets a process, this test's own.
func TestLogger(t *testing.T) {
	if command := os.Getenv("LOGGER_OF_COMMAND"); command != "" {
		app.Run(context.Background(), append([]string{"mirrorset-guard"}, strings.Fields(command)...), strings.NewReader(""), io.Discard, io.Discard)
		log.SetLogger(funcr.New(func(_, args string) { t.Error("no logger was set before this one: ", args) }, funcr.Options{}))
		log.Log.Info("anybody there?")
		return
	}
	for _, command := range []string{
		"check -f none.yaml", "explain quay.io/x --from none.yaml", "render --from none.yaml", "inventory --from none.yaml",
		"rollout --from none.yaml", "rollout verify --from none.yaml", "rollout pause x --kubeconfig none", "snapshot --from none.yaml", "version", "serve --kubeconfig none",
	} {
		t.Run(command, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLogger$")
			child.Env = append(os.Environ(), "LOGGER_OF_COMMAND="+command)
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// runUnderOwnName is run without the name of the program in front of its arguments.
func runUnderOwnName(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return app.Run(ctx, append([]string{"mirrorset-guard"}, args...), stdin, stdout, stderr)
}
