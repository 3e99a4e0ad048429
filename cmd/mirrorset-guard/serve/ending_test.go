package serve

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndsWithoutWhatHangs: what runs as long as the guard listens is waited for, also for its
// error; what does not end after that is left behind.
func TestEndsWithoutWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		log, err := newLogger("info", &logs)
		if err != nil {
			t.Fatal(err)
		}
		g := &guard{log: log}
		hangs, listened := make(chan error), make(chan struct{})
		go func() {
			time.Sleep(time.Hour)
			close(listened)
		}()
		start := time.Now()
		if err := g.awaitEnd(func() error { return <-hangs }, listened); err != nil || time.Since(start) != time.Hour+endTime {
			t.Errorf("it ended after %s: %v", time.Since(start), err)
		}
		if !strings.Contains(logs.String(), "Exiting although something still runs") {
			t.Errorf("log %q", logs.String())
		}
		failed := errors.New("no port")
		for name, wait := range map[string]func() error{
			"at once": func() error { return failed },
			"a moment after": func() error {
				time.Sleep(endTime / 2)
				return failed
			},
		} {
			if err := g.awaitEnd(wait, listened); !errors.Is(err, failed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		close(hangs)
	})
}
