package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
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
	n, took := campaign.Times(20, 400), new(sample)
	for i := range n {
		text := forged(t, "mallory", tagSet(fmt.Sprint("unread-", i), "quay.io/shop/cart", "mirror.example.com/empty"))
		start := time.Now()
		answer := newStranger(t, 800).verdict(t, g, text)
		took.add(time.Since(start), nil)
		if answer == nil || answer.Allowed || !strings.Contains(answer.Result.Message, "quay.io/shop/cart:v1") {
			t.Fatalf("answered %+v", answer)
		}
	}
	g.Eventually(t, "it is not ready for what hangs", func() bool {
		_, why := g.Readyz()
		return strings.Contains(why, "the log: ") && strings.Contains(why, "audit records: ")
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
