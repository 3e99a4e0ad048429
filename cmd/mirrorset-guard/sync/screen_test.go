package sync

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

// TestBar: at a terminal there is a bar for the whole, in one line, and then the report in its place.
func TestBar(t *testing.T) {
	s := newShop(t)
	held := make(chan struct{})
	hold := func(r *http.Request) {
		if r.Method == http.MethodPost { // the beginning of each upload
			<-held
		}
	}
	s.mirror.on.Store(&hold)
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("REGISTRY_AUTH_FILE", clitest.Written(t, "nothing.json", "{}"))
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }() // the end of a terminal
	if err := pty.Setsize(slave, &pty.Winsize{Cols: 60, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"sync", "--from", s.dump, "--allow-loopback", "-f", s.change, "--push-secret", s.secret}, strings.NewReader(""), slave, io.Discard)
		_ = slave.Close() // the end of a terminal
	}()
	shown := shownUntil(t, master, `\r0 of 2 images +0% \[\.+\] \( ?0(?: B)?/[0-9.]+ [KM]?i?B\) \[[0-9smh]+:[0-9smh]+\]\x1b\[0K`)
	for _, line := range strings.Split(shown, "\r") {
		if n := len(strings.TrimSuffix(line, "\x1b[0K")); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	close(held)
	shown = shownUntil(t, master, `is admitted`)
	if exit := <-code; exit != 0 {
		t.Errorf("exit code %d", exit)
	}
	if _, after, cleared := strings.Cut(shown, "\x1b[2K\r"); !cleared || strings.Contains(after, "2 images ") {
		t.Errorf("the bar is still on:\n%q", shown)
	}
}

// shownUntil returns what is written to a terminal until something matches.
func shownUntil(t *testing.T, master *os.File, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	var shown strings.Builder
	buffer := make([]byte, 4096)
	for !want.MatchString(shown.String()) {
		n, err := master.Read(buffer)
		shown.Write(buffer[:n])
		if err != nil {
			t.Fatalf("the terminal ended without %q: %q", pattern, shown.String())
		}
	}
	return shown.String()
}
