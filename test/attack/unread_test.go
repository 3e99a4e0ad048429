package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	process "github.com/mirrorset-guard/mirrorset-guard/test/guard"
)

// gracePeriod is how long a pod of the manifests has to end.
const gracePeriod = 45 * time.Second

// testUnread: a guard whose log and records nobody reads answers as ever, is not ready after a while, and ends in its time.
func testUnread(t *testing.T, s *stage) {
	dir := t.TempDir()
	program, config := filepath.Join(dir, "guard"), filepath.Join(dir, "config.yaml")
	var pipes []*os.File
	for _, name := range []string{"1", "2"} {
		path := filepath.Join(dir, name)
		must(t, syscall.Mkfifo(path, 0o600))
		fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
		must(t, err)
		pipe := os.NewFile(uintptr(fd), path)
		t.Cleanup(func() { _ = pipe.Close() })
		pipes = append(pipes, pipe)
	}
	must(t, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec %q \"$@\" >%[2]q/1 2>%[2]q/2\n", s.binary, dir), 0o700))
	must(t, os.WriteFile(config, []byte(clitest.ConfigHeader+"auditLog: stdout\n"), 0o600))
	g := s.start(t, program, "--leader-elect", "--config", config)
	g.AwaitReady(t)
	for _, pipe := range pipes {
		fill(t, pipe)
	}
	whileItHangs(t, g, newStranger(t, 800), "the log: ", "audit records: ")
}

// testAuditFile: strangers have a budget in an audit file, beside what known senders ask; while its file system hangs, a
// guard answers as ever, is not ready after a while, ends in its time, and says how many records were lost.
func testAuditFile(t *testing.T, s *stage) {
	dir := t.TempDir()
	file, config := filepath.Join(dir, "audit.log"), filepath.Join(dir, "config.yaml")
	must(t, os.WriteFile(config, []byte(clitest.ConfigHeader+"auditLog: "+file+"\n"), 0o600))
	s.introduce(t)                                                                                // the API server's address to the others, and by the Lease to this guard
	g, known := s.start(t, s.binary, "--leader-elect", "--config", config), newStranger(t, -0xff) // 127.0.0.1
	g.AwaitReady(t)
	if campaign.On() { // which lasts longer than a budget
		const sent, budget = 400, 512 << 10
		for i := range sent {
			ask(t, g, newStranger(t, 800+i%16), i)
		}
		ask(t, g, known, sent)
		var text string
		recorded, omitted, own := 0, 0, 0
		g.Eventually(t, "each request is recorded, or counted", func() bool {
			all, err := os.ReadFile(file)
			must(t, err)
			text, omitted = string(all), 0
			for _, n := range regexp.MustCompile(`"lost":([0-9]+)`).FindAllStringSubmatch(text, -1) {
				more, _ := strconv.Atoi(n[1])
				omitted += more
			}
			recorded = strings.Count(text, `"senderNotKnown":true`)
			own = strings.Count(text, `"verdict":`) - recorded
			return recorded+omitted >= sent && own >= 1 // more where there was no verdict on the first try
		})
		t.Logf("of %d forged reviews %d are recorded in %d kB, the others counted", sent, recorded, len(text)>>10)
		if periods := 1 + strings.Count(text, `"lost":`); omitted == 0 || len(text) > periods*budget {
			t.Errorf("%d bytes are recorded", len(text))
		}
	}
	must(t, os.Remove(file))
	must(t, syscall.Mkfifo(file, 0o600)) // which nobody reads: to open it hangs
	whileItHangs(t, g, known, "audit records: ")
	if log := g.Log(); !strings.Contains(log, "Lost audit records at the end") {
		t.Errorf("the log does not say what was lost:\n%s", process.Tail([]byte(log)))
	}
}

// ask sends a forged review of a bad change, which is to be refused for what it breaks.
func ask(t *testing.T, g *guard, by stranger, number int) {
	t.Helper()
	answer := by.verdict(t, g, forged(t, "mallory", tagSet(fmt.Sprint("unread-", number), "quay.io/shop/cart", "mirror.example.com/empty")))
	if answer == nil || answer.Allowed || !strings.Contains(answer.Result.Message, "quay.io/shop/cart:v1") {
		t.Fatalf("answered %+v", answer)
	}
}

// whileItHangs: a guard that can write no more answers a sender as ever, says in /readyz after a while what hangs, and ends in
// its time.
func whileItHangs(t *testing.T, g *guard, by stranger, what ...string) {
	t.Helper()
	n, took := campaign.Times(20, 400), new(sample)
	for i := range n {
		start := time.Now()
		ask(t, g, by, i)
		took.add(time.Since(start), nil)
	}
	g.Eventually(t, "it is not ready for what hangs", func() bool {
		_, why := g.Readyz()
		return !slices.ContainsFunc(what, func(of string) bool { return !strings.Contains(why, of) })
	})
	start := time.Now()
	g.Stop(t)
	ended := time.Since(start)
	t.Logf("%s of %d right; ended after %s", took, n, ended.Round(time.Second))
	if ended > gracePeriod {
		t.Errorf("it takes %s to end", ended)
	}
}

// fill writes into a pipe until it takes no more.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	must(t, pipe.SetWriteDeadline(time.Now().Add(time.Second)))
	for {
		if _, err := pipe.Write(make([]byte, 512)); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
