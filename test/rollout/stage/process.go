package stage

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A process is a running controller.
type process struct {
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{}
	err       error // once it has ended
}

// start runs a program of bin/rollout until the test ends.
func (s *Stage) start(name string, args ...string) {
	s.t.Helper()
	s.startProgram(program(s.t, name), args...)
}

// startProgram runs a program until the test ends. Its log is shown if the test fails; a
// program that ends before fails it.
func (s *Stage) startProgram(path string, args ...string) {
	s.t.Helper()
	name := filepath.Base(path)
	p := &process{name: name, log: filepath.Join(s.t.TempDir(), name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	s.must(err)
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1") // if it has the race detector
	p.cmd.Stdout, p.cmd.Stderr = log, log
	s.must(p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		log.Close() //nolint:errcheck // what was written is there
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		if !p.stop() {
			s.t.Errorf("%s ended before the test: %v", name, p.err)
		}
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", name, p.tail())
		}
	})
}

// stop ends the process. It reports whether that was still to be done.
func (p *process) stop() bool {
	select {
	case <-p.ended:
		return false
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone by now
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return true
}

// tail returns the end of the log.
func (p *process) tail() string {
	const most = 8 << 10
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}
