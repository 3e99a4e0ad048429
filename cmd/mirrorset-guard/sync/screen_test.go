package sync

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// A terminalUser sits at a terminal, which a program emulates.
type terminalUser struct {
	master  *os.File
	vt      vt10x.Terminal
	changed chan struct{} // holds an entry once something was written
	ended   chan struct{}
}

func newTerminalUser(master *os.File, columns, rows int) *terminalUser {
	u := &terminalUser{master: master, vt: vt10x.New(vt10x.WithSize(columns, rows)), changed: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(u.ended)
		data := make([]byte, 4096)
		for {
			n, err := master.Read(data)
			_, _ = u.vt.Write(data[:n]) // an emulator does not fail
			select {
			case u.changed <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return u
}

// waits waits until the screen shows what matches.
func (u *terminalUser) waits(t *testing.T, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	deadline := time.After(time.Minute)
	for {
		screen := u.vt.String()
		if want.MatchString(screen) {
			return screen
		}
		select {
		case <-u.changed:
		case <-u.ended:
			if screen = u.vt.String(); want.MatchString(screen) {
				return screen
			}
			t.Fatalf("the terminal ended without %q:\n%s", pattern, screen)
		case <-deadline:
			t.Fatalf("there is no %q on\n%s", pattern, screen)
		}
	}
}

// TestScreen: at a terminal there is a bar for the whole, with what is under way below it, and then the report in
// its place.
func TestScreen(t *testing.T) {
	s := newShop(t)
	s.source.held = make(chan struct{})
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("REGISTRY_AUTH_FILE", clitest.Written(t, "nothing.json", "{}"))
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }() // the end of a terminal
	if err := pty.Setsize(slave, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	u := newTerminalUser(master, 100, 30)
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"sync", "--from", s.dump, "--allow-loopback", "-f", s.change, "--push-secret", s.secret}, strings.NewReader(""), slave, io.Discard)
		_ = slave.Close() // the end of a terminal
	}()
	screen := u.waits(t, `0 of 2 images, 0 B of [0-9.]+ KiB`)
	for _, want := range []string{`(?m)^\[\.{60}\]`, `0 B of .* ` + regexp.QuoteMeta(s.mirror.host) + `/ocp/router@sha256:`, `0 B of .* ` + regexp.QuoteMeta(s.mirror.host) + `/team/shop/cart:v1`} {
		if !regexp.MustCompile(want).MatchString(screen) {
			t.Errorf("there is no %q on\n%s", want, screen)
		}
	}
	close(s.source.held)
	u.waits(t, `is admitted`)
	if exit := <-code; exit != 0 {
		t.Errorf("exit code %d", exit)
	}
	if screen := u.vt.String(); strings.Contains(screen, "[####") {
		t.Errorf("the bar is still on\n%s", screen)
	}
}
