package stage

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A Process is a running program.
type Process struct {
	// Ended is closed once it has ended, and Err says how.
	Ended chan struct{}
	Err   error

	name, log string
	cmd       *exec.Cmd
}

// start runs a program of bin/rollout until the test ends.
func start(t testing.TB, name string, args ...string) {
	t.Helper()
	startProgram(t, program(t, name), args...)
}

// startProgram runs a program until the test ends. Its log is shown if the test fails; a
// program that ends before fails it.
func startProgram(t testing.TB, path string, args ...string) {
	t.Helper()
	p, err := Begin(t.TempDir(), exec.Command(path, args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.Stop() {
			t.Errorf("%s ended before the test: %v", p.name, p.Err)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", p.name, p.Tail())
		}
	})
}

// Begin runs a program that is to be stopped. Its output, unless it goes elsewhere, is in a log in a
// folder.
func Begin(dir string, cmd *exec.Cmd) (*Process, error) {
	name := filepath.Base(cmd.Path)
	p := &Process{name: name, log: filepath.Join(dir, name+".log"), cmd: cmd, Ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Environ(), "GORACE=halt_on_error=1") // if it has the race detector
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.Err = cmd.Wait()
		log.Close() //nolint:errcheck // what was written is there
		close(p.Ended)
	}()
	return p, nil
}

// Stop ends the process. It reports whether that was still to be done.
func (p *Process) Stop() bool {
	select {
	case <-p.Ended:
		return false
	default:
	}
	p.Terminate()
	select {
	case <-p.Ended:
	case <-time.After(5 * time.Second):
		p.Kill()
	}
	return true
}

// Terminate asks the process to end.
func (p *Process) Terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) } // it may be gone by now

// Kill ends the process at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be gone by now
	<-p.Ended
}

// Tail returns the end of the log.
func (p *Process) Tail() string {
	const most = 8 << 10
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}
