package terminal

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

func TestOpen(t *testing.T) {
	_, slave := open(t, 80, 24)
	for _, tt := range []struct {
		why  string
		term string
		want bool
	}{{"a terminal", "xterm", true}, {"one that cannot draw", "dumb", false}, {"of no kind", "", false}} {
		t.Setenv("TERM", tt.term)
		if _, ok := Open(slave); ok != tt.want {
			t.Errorf("%s: got %t", tt.why, ok)
		}
	}
	t.Setenv("TERM", "xterm")
	if _, ok := Open(&bytes.Buffer{}); ok {
		t.Error("a buffer is no terminal")
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // nothing is written
	if _, ok := Open(file); ok {
		t.Error("a file is no terminal")
	}
}

func open(t *testing.T, columns, rows uint16) (master, slave *os.File) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		master.Close() //nolint:errcheck // the end of a terminal
		slave.Close()  //nolint:errcheck // as above
	})
	if err := pty.Setsize(master, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestDraw: frames replace each other, what is as it was is not written again, and in the end
// the terminal is as it was.
func TestDraw(t *testing.T) {
	master, slave := open(t, 20, 4)
	t.Setenv("TERM", "xterm")
	screen, ok := Open(slave)
	if !ok {
		t.Fatal("no terminal")
	}
	vt := vt10x.New(vt10x.WithSize(20, 4))
	frame := func(want []string, lines ...string) int {
		t.Helper()
		if err := screen.Draw(lines); err != nil {
			t.Fatal(err)
		}
		n := drain(t, master, slave, vt)
		var got []string
		for _, line := range strings.Split(strings.TrimRight(vt.String(), "\n"), "\n") {
			got = append(got, strings.TrimRight(line, " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		return n
	}
	all := frame([]string{"12345678901234567890", "b", "c", "d"}, "12345678901234567890", "b", "c", "d", "e")
	if vt.CursorVisible() {
		t.Error("the cursor is in the way")
	}
	if n := frame([]string{"12345678901234567890", "b", "x", "d"}, "12345678901234567890", "b", "x", "d"); n >= all {
		t.Errorf("%d bytes for a line, %d for all", n, all)
	}
	if n := frame([]string{"12345678901234567890", "b", "x", "d"}, "12345678901234567890", "b", "x", "d"); n != 0 {
		t.Errorf("%d bytes for nothing", n)
	}
	frame([]string{"1234567890123456789…", "", "", ""}, "123456789012345678901")
	if err := screen.Close(); err != nil {
		t.Fatal(err)
	}
	drain(t, master, slave, vt)
	if !vt.CursorVisible() || vt.Mode()&vt10x.ModeAltScreen != 0 {
		t.Error("the terminal is not as it was")
	}
	if err := screen.Close(); err != nil || drain(t, master, slave, vt) != 0 {
		t.Errorf("closed twice: %v", err)
	}
}

// drain passes on what was written up to now, and returns how much that is.
func drain(t *testing.T, master, slave *os.File, vt vt10x.Terminal) int {
	t.Helper()
	const end = "\x1b[5n" // a question without an answer here
	if _, err := slave.WriteString(end); err != nil {
		t.Fatal(err)
	}
	var all []byte
	buffer := make([]byte, 1<<12)
	for !bytes.HasSuffix(all, []byte(end)) {
		n, err := master.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, buffer[:n]...)
	}
	all = bytes.TrimSuffix(all, []byte(end))
	vt.Write(all) //nolint:errcheck // in memory
	return len(all)
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		line    string
		columns int
		want    string
		width   int
	}{
		{"abc", 3, "abc", 3},
		{"abcd", 3, "ab…", 3},
		{"日本語", 6, "日本語", 6},
		{"日本語", 5, "日本…", 5},
		{"日本語", 4, "日…", 3},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301", 3},
		{"", 0, "", 0},
	} {
		if got := Cut(tt.line, tt.columns); got != tt.want || Width(got) != tt.width {
			t.Errorf("%q in %d columns: got %q with %d", tt.line, tt.columns, got, Width(got))
		}
	}
}

func TestSize(t *testing.T) {
	_, slave := open(t, 0, 0)
	if width, height := (&Screen{file: slave}).Size(); width != 80 || height != 24 {
		t.Errorf("a terminal that does not tell its size: %d x %d", width, height)
	}
	_, slave = open(t, 1, 1)
	if width, height := (&Screen{file: slave}).Size(); width != leastWidth || height != leastHeight {
		t.Errorf("a tiny terminal: %d x %d", width, height)
	}
}
