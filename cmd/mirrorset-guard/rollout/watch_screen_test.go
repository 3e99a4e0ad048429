package rollout

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
)

var updateScreens = flag.Bool("update-screens", false, "write the screens of rollout watch to testdata/watch")

// A terminalUser sits at a terminal, which a program emulates, in front of rollout watch.
type terminalUser struct {
	t      *testing.T
	master *os.File
	vt     vt10x.Terminal
	clock  atomic.Int64   // seconds after noon
	asked  chan time.Time // what the watch was told last when it asked the clock
	stop   context.CancelFunc
	code   chan error

	mu      sync.Mutex
	written []byte
	changed chan struct{} // closed when something is written
	seen    map[string]bool
}

// noon is when a watch on a terminal begins: its clock stands still unless a test moves it.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sitDown(t *testing.T, kubeconfig string, columns, rows int, change func(*watchOptions)) *terminalUser {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	u := newTerminalUser(t, master, columns, rows)
	u.stop = stop
	o := watchOptions{output: cli.Formats("auto", "lines", "json"), stallAfter: 10 * time.Minute, now: u.now}
	o.cluster.Kubeconfig = kubeconfig
	if change != nil {
		change(&o)
	}
	go func() {
		u.code <- o.run(ctx, cli.Streams{In: strings.NewReader(""), Out: slave, Err: io.Discard})
		slave.Close() //nolint:errcheck // the end of a terminal
	}()
	t.Cleanup(stop)
	return u
}

func newTerminalUser(t *testing.T, master *os.File, columns, rows int) *terminalUser {
	t.Helper()
	u := &terminalUser{t: t, master: master, vt: vt10x.New(vt10x.WithSize(columns, rows)), code: make(chan error, 1), asked: make(chan time.Time, 1), changed: make(chan struct{}), seen: map[string]bool{}}
	u.resize(columns, rows)
	go u.read()
	t.Cleanup(func() { master.Close() }) //nolint:errcheck // the end of a terminal
	return u
}

// now is the clock of the watch.
func (u *terminalUser) now() time.Time {
	now := noon.Add(time.Duration(u.clock.Load()) * time.Second)
	select {
	case u.asked <- now:
	default:
	}
	return now
}

// waits sets the clock, and returns when the watch goes by it: what is done from then on is not
// seen with the time of a look that began before.
func (u *terminalUser) waits(seconds int64) {
	u.t.Helper()
	u.clock.Store(seconds)
	until := noon.Add(time.Duration(seconds) * time.Second)
	for limit := time.After(clitest.WatchLimit); ; {
		select {
		case now := <-u.asked:
			if now.Equal(until) {
				return
			}
		case <-limit:
			u.t.Fatal("the watch does not look any more")
		}
	}
}

func (u *terminalUser) resize(columns, rows int) {
	u.t.Helper()
	if err := pty.Setsize(u.master, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		u.t.Fatal(err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.vt.Resize(columns, rows)
}

// read passes on to the emulator what is written, until the end.
func (u *terminalUser) read() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := u.master.Read(buffer)
		u.mu.Lock()
		u.vt.Write(buffer[:n]) //nolint:errcheck // in memory
		u.written = append(u.written, buffer[:n]...)
		close(u.changed)
		u.changed = make(chan struct{})
		u.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// screen returns what the terminal shows, and a channel that is closed when that changes.
func (u *terminalUser) screen() (string, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	lines := strings.Split(u.vt.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return masked(strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"), u.changed
}

// masked leaves out what differs from one run to the next: ports, and how a connection ended.
func masked(screen string) string {
	screen = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(screen, "127.0.0.1:6443")
	return regexp.MustCompile(`(?s)(any more\.) .*?(\n\d\d)`).ReplaceAllString(screen, "$1$2")
}

// sees waits until the terminal shows the screen of that name in testdata/watch.
func (u *terminalUser) sees(name string, parts ...string) {
	u.t.Helper()
	path := filepath.Join("testdata", "watch", name+".screen")
	u.seen[name] = true
	want, err := os.ReadFile(path)
	if err != nil && !*updateScreens {
		u.t.Fatal(err)
	}
	limit := time.After(clitest.WatchLimit)
	for {
		got, changed := u.screen()
		if *updateScreens {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(got, part) }) {
				u.settle()
				got, _ = u.screen()
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					u.t.Fatal(err)
				}
				return
			}
		} else if got == string(want) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			u.t.Fatalf("%s does not come (-want +got); if it should not, run the test with -update-screens:\n%s", path, cmp.Diff(string(want), got))
		}
	}
}

// settle waits until the screen has not changed for a while, to write it down.
func (u *terminalUser) settle() {
	for {
		_, changed := u.screen()
		select {
		case <-changed:
		case <-time.After(3 * time.Second):
			return
		}
	}
}

// end waits for the end of the watch, and says how the terminal was left.
func (u *terminalUser) end() error {
	u.t.Helper()
	var err error
	select {
	case err = <-u.code:
	case <-time.After(clitest.WatchLimit):
		screen, _ := u.screen()
		u.t.Fatalf("it has not ended:\n%s", screen)
	}
	const restored = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	for limit := time.After(clitest.WatchLimit); ; {
		u.mu.Lock()
		is, changed, visible := strings.Contains(string(u.written), restored), u.changed, u.vt.CursorVisible()
		u.mu.Unlock()
		if is && visible {
			return err
		}
		select {
		case <-changed:
		case <-limit:
			u.t.Fatal("the terminal is not as it was before")
		}
	}
}

// TestRolloutWatchScreen: what a person sees, on a real API server, in an emulated terminal.
func TestRolloutWatchScreen(t *testing.T) {
	if kubeconfig := os.Getenv("WATCH_KUBECONFIG"); kubeconfig != "" {
		inTerminal(kubeconfig)
	}
	c := newWatchCluster(t)
	seen := map[string]bool{}
	for _, tt := range []struct {
		name string
		test func(*testing.T, realCluster, map[string]bool)
	}{
		{"a rollout", screenRollout},
		{"a stall", screenStall},
		{"Ctrl-C", screenInterrupt},
		{"Ctrl-Z", screenSuspend},
		{"in the background", screenBackground},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.reset(t)
			tt.test(t, c, seen)
		})
	}
	screens, err := filepath.Glob(filepath.Join("testdata", "watch", "*.screen"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range screens {
		if name := strings.TrimSuffix(filepath.Base(path), ".screen"); !seen[name] && !t.Failed() {
			t.Errorf("%s: no test sees it", path)
		}
	}
}

// screenRollout goes from the change to its end, with a smaller terminal and an API server that
// is killed in between.
func screenRollout(t *testing.T, c realCluster, seen map[string]bool) {
	c.Apply(t, watchSet)
	u := sitDown(t, c.Kubeconfig, 80, 24, nil)
	u.seen = seen
	u.sees("not-noticed", "MCO has not rendered")
	u.waits(30)
	c.target(t, "worker", "rendered-worker-2")
	u.sees("begun", "begins to get")
	u.waits(40)
	c.cordon(t, "node-a", true)
	c.annotate(t, "node-a", map[string]string{"desiredConfig": "rendered-worker-2", "state": "Working", "desiredDrain": "drain-rendered-worker-2"})
	u.sees("draining", "1 draining")
	u.waits(160)
	u.sees("draining-for-two-minutes", "is being drained, 2m")
	u.resize(50, 12)
	u.sees("smaller", "is being drained, 2m")
	u.resize(120, 30)
	u.sees("larger", "is being drained, 2m")
	u.resize(80, 24)
	u.sees("draining-for-two-minutes", "is being drained, 2m")
	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	u.sees("api-server-away", "connection refused")
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.sees("api-server-back", "answers again")
	u.waits(200)
	c.cordon(t, "node-a", false)
	c.update(t, "node-a", "rendered-worker-2")
	u.sees("one-is-done", "1 of 2 done")
	c.update(t, "node-b", "rendered-worker-2")
	u.sees("all-are-done", "2 of 2 done")
	c.counted(t, "worker", "rendered-worker-2", 2)
	if err := u.end(); err != nil {
		t.Errorf("got %v", err)
	}
	u.sees("the-end", "Updated: all 2 nodes")
}

// screenStall: ten minutes without movement, of which a budget is the cause.
func screenStall(t *testing.T, c realCluster, seen map[string]bool) {
	c.holdUp(t)
	u := sitDown(t, c.Kubeconfig, 80, 24, func(o *watchOptions) { o.keepGoing = true })
	u.seen = seen
	u.sees("held-up", "is being drained")
	u.waits(5 * 60)
	u.sees("held-up-for-five-minutes", "as it seems")
	u.waits(10 * 60)
	u.sees("stalled", "budget cart allows no disruption")
	u.stop()
	if err := u.end(); err == nil || !strings.Contains(err.Error(), "interrupted; still missing") {
		t.Errorf("got %v", err)
	}
}

// screenInterrupt: a real process gets a real Ctrl-C, as a terminal sends it.
func screenInterrupt(t *testing.T, c realCluster, _ map[string]bool) {
	c.Apply(t, watchSet)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRolloutWatchScreen$")
	child.Env = append(os.Environ(), "WATCH_KUBECONFIG="+c.Kubeconfig, "TERM=xterm")
	master, err := pty.StartWithSize(child, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close() //nolint:errcheck // the end of a terminal
	var written []byte
	buffer, interrupted := make([]byte, 1<<16), false
	for {
		n, err := master.Read(buffer)
		written = append(written, buffer[:n]...)
		if err != nil {
			break // the child has ended
		}
		if !interrupted && bytes.Contains(written, []byte("Ctrl-C ends the watch")) {
			interrupted = true
			if _, err := master.WriteString("\x03"); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := child.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitTrouble {
		t.Errorf("got %v, want exit code %d\n%q", err, cli.ExitTrouble, written)
	}
	vt := vt10x.New(vt10x.WithSize(80, 24))
	vt.Write(written) //nolint:errcheck // in memory
	if screen := vt.String(); !vt.CursorVisible() || vt.Mode()&vt10x.ModeAltScreen != 0 || !strings.Contains(screen, "interrupted; still missing: MCO has not rendered") {
		t.Errorf("the terminal is left with\n%s", screen)
	}
}

// atShell is a person at a shell with job control, and watch the command that they type.
func atShell(t *testing.T, c realCluster, args string) (u *terminalUser, watch string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "sh", "-i")
	shell.Env = append(os.Environ(), "WATCH_KUBECONFIG="+c.Kubeconfig, "WATCH_ARGS="+args, "TERM=xterm", "PS1=$ ", "ENV=")
	master, err := pty.StartWithSize(shell, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	u = newTerminalUser(t, master, 80, 24)
	t.Cleanup(func() {
		_ = shell.Process.Kill() // it has ended, but for a test that failed
		_ = shell.Wait()
	})
	return u, os.Args[0] + " -test.run='^TestRolloutWatchScreen$'"
}

func (u *terminalUser) types(keys string) {
	u.t.Helper()
	if _, err := u.master.WriteString(keys); err != nil {
		u.t.Fatal(err)
	}
}

// finds waits until the terminal shows all parts, on the screen that programs draw on (drawn) or
// on that of the shell.
func (u *terminalUser) finds(drawn bool, parts ...string) {
	u.t.Helper()
	for limit := time.After(clitest.WatchLimit); ; {
		screen, changed := u.screen()
		u.mu.Lock()
		is := u.vt.Mode()&vt10x.ModeAltScreen != 0
		cursor := u.vt.CursorVisible()
		u.mu.Unlock()
		if is == drawn && cursor != drawn && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(screen, part) }) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			u.t.Fatalf("%q does not come; drawn: %t, a cursor: %t\n%s", parts, is, cursor, screen)
		}
	}
}

// screenSuspend: Ctrl-Z gives the terminal to the shell, as it was, and fg draws anew.
func screenSuspend(t *testing.T, c realCluster, _ map[string]bool) {
	c.Apply(t, watchSet)
	u, watch := atShell(t, c, "")
	u.types(watch + "\n")
	u.finds(true, "Ctrl-C ends the watch", "MCO has not rendered")
	for _, time := range []string{"once", "twice"} {
		u.types("\x1a")
		u.finds(false, "Stopped")
		u.types("echo the\\ shell\\ answers\\ " + time + "\n")
		u.finds(false, "the shell answers "+time)
		u.types("fg\n")
		u.finds(true, "Ctrl-C ends the watch", "MCO has not rendered")
	}
	u.types("\x03")
	u.finds(false, "interrupted; still missing: MCO has not rendered")
	u.types("echo code $?; exit\n") // it may be shown before the shell has shown its prompt, or after
	u.finds(false, "code 2")
}

// screenBackground: a watch in the background draws nothing over what the shell shows, and tells
// in lines how it ends.
func screenBackground(t *testing.T, c realCluster, _ map[string]bool) {
	c.Apply(t, watchSet)
	u, watch := atShell(t, c, "--timeout 3s")
	u.types(watch + " &\n")
	u.finds(false, "--timeout has expired")
	u.types("exit\n")
	u.mu.Lock()
	defer u.mu.Unlock()
	if bytes.Contains(u.written, []byte("\x1b[?1049h")) {
		t.Errorf("it has drawn: %q", u.written)
	}
}

// inTerminal is the child of the tests with processes.
func inTerminal(kubeconfig string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	args := append([]string{"rollout", "watch", "--kubeconfig", kubeconfig}, strings.Fields(os.Getenv("WATCH_ARGS"))...)
	os.Exit(run(ctx, args, os.Stdin, os.Stdout, os.Stderr)) //nolint:gocritic // the process ends
}
