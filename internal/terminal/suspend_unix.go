//go:build unix

package terminal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Run gives the terminal back while the program is stopped by Ctrl-Z, and redraws the screen
// once the program continues in the foreground. It returns when ctx ends.
func (s *Screen) Run(ctx context.Context) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTSTP, syscall.SIGCONT)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			if sig == syscall.SIGTSTP {
				s.suspend(signals)
			}
			s.redraw() // a shell has written meanwhile
		}
	}
}

// stopTime is how long it may take until a signal stops the program. The system does not stop
// one that has no shell with job control, as nothing could continue it.
const stopTime = time.Second

// suspend stops the program as Ctrl-Z does one that does not draw. Nothing is drawn meanwhile. Once
// SIGTSTP has been asked for, Go never gives it its default action back (sigdisable in Go's
// runtime/signal_unix.go). SIGTTIN has the same one.
func (s *Screen) suspend(signals <-chan os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leave() != nil {
		return // the terminal is gone
	}
	if syscall.Kill(syscall.Getpid(), syscall.SIGTTIN) != nil {
		return
	}
	notStopped := time.After(stopTime)
	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGCONT {
				return
			}
		case <-notStopped:
			return
		}
	}
}

// isBackground reports whether the terminal belongs to another program, such as the shell that
// lets this one go on in the background.
func (s *Screen) isBackground() bool {
	group, err := unix.IoctlGetInt(int(s.file.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}
