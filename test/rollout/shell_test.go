package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A shell runs commands as people paste them. There is no oc and no node here: oc is kubectl
// but for what only oc has, and that is played, as is what runs on a node.
type shell struct {
	t   *testing.T
	env []string
	// play does what is played: a command with its arguments and its input. It returns the
	// output.
	play func(args []string, input []byte) (string, error)
}

// playedProgram is the name of the program that asks the test.
const playedProgram = "stage-play"

// shims are the programs that people have, in terms of those that are here.
const (
	ocShim = `#!/bin/sh
case "$1 $2" in
"adm cordon" | "adm uncordon") shift; exec kubectl "$@" ;;
"adm certificate") shift; exec kubectl "$@" ;;
"debug "*) exec stage-play oc "$@" ;;
esac
exec kubectl "$@"
`
	sshShim = `#!/bin/sh
exec stage-play ssh "$@"
`
	skopeoShim = `#!/bin/sh
exec stage-play skopeo "$@"
`
	// guardShim answers in advance what the command asks.
	guardShim = `#!/bin/sh
case "$2" in
pause | resume) exec "$GUARD" "$@" --yes ;;
esac
exec "$GUARD" "$@"
`
)

// newShell returns a shell in which kubectl and guard, a program, lead to the cluster of a
// kubeconfig.
func newShell(t *testing.T, kubectl, kubeconfig, guard string, play func([]string, []byte) (string, error)) *shell {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{playedProgram: self, "kubectl": kubectl} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range map[string]string{"oc": ocShim, "ssh": sshShim, "skopeo": skopeoShim, "mirrorset-guard": guardShim} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil { // it is a program
			t.Fatal(err)
		}
	}
	s := &shell{t: t, play: play}
	socket := s.listen()
	s.env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "GUARD="+guard, "STAGE_SOCKET="+socket)
	return s
}

// run runs a command, and fails the test if the command fails.
func (s *shell) run(ctx context.Context, command string, env ...string) string {
	s.t.Helper()
	out, err := s.try(ctx, command, env...)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// try runs a command.
func (s *shell) try(ctx context.Context, command string, env ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(s.env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A played is a command that is played, as it goes to the test.
type played struct {
	Args  []string
	Input []byte
}

// performance is the result of a command.
type performance struct{ Output, Error string }

// listen plays what comes, until the test ends.
func (s *shell) listen() string {
	dir, err := os.MkdirTemp("", "stage") // the path of a socket has to be short
	if err != nil {
		s.t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	s.t.Cleanup(func() {
		l.Close() // what is under way ends all the same
		<-done
		os.RemoveAll(dir) //nolint:errcheck // it is in the system's folder for such files
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.perform(conn)
		}
	}()
	return socket
}

func (s *shell) perform(conn net.Conn) {
	defer conn.Close() // the answer is written, or nobody waits for it
	var p played
	var result performance
	err := json.NewDecoder(conn).Decode(&p)
	if err == nil {
		result.Output, err = s.play(p.Args, p.Input)
	}
	if err != nil {
		result.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(result)
}

// bePlayed is the program that asks the test. It returns the exit code.
func bePlayed(args []string) int {
	if err := askTest(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func askTest(args []string) error {
	p := played{Args: args}
	if strings.Contains(strings.Join(args, " "), "debug -i ") {
		var err error
		if p.Input, err = io.ReadAll(os.Stdin); err != nil {
			return err
		}
	}
	conn, err := net.Dial("unix", os.Getenv("STAGE_SOCKET"))
	if err != nil {
		return err
	}
	defer conn.Close() // all has been read
	if err := json.NewEncoder(conn).Encode(p); err != nil {
		return err
	}
	var result performance
	if err := json.NewDecoder(conn).Decode(&result); err != nil {
		return err
	}
	fmt.Print(result.Output)
	if result.Error != "" {
		return fmt.Errorf("%s", result.Error)
	}
	return nil
}
