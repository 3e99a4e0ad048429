package serve

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/queued"
	"github.com/mirrorset-guard/mirrorset-guard/review/audit/auditlog"
)

// TestNobodyReads: while nobody reads standard error and standard output, whoever logs goes on; it is said which of
// them hangs, nothing keeps the guard from ending, and once somebody reads, the log says what it lacks.
func TestNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stderr, to := io.Pipe()
		_, stdout := io.Pipe()
		lines := newLogLines(to)
		log, err := newLogger("info", lines)
		if err != nil {
			t.Fatal(err)
		}
		records, err := auditlog.New(auditlog.Options{Stdout: stdout})
		if err != nil {
			t.Fatal(err)
		}
		if err := records.Configure(auditlog.Stdout); err != nil {
			t.Fatal(err)
		}
		g := &guard{options: &serveOptions{lines: lines}, audit: records}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() { ended <- lines.Run(ctx) }()
		log.Info("first")
		synctest.Wait()
		records.Record(auditv1alpha1.Decision{})
		stopRecords := start(t.Context(), g.audit.Run)
		for range queued.MaxLines + 9 {
			log.Info("more")
		}
		if n := testutil.ToFloat64(lines.lost); n != 10 {
			t.Errorf("%v lines are lost", n)
		}
		if err := g.hangs(); err != nil {
			t.Errorf("it is said at once: %v", err)
		}
		time.Sleep(10 * time.Second)
		if err := g.hangs(); err == nil || !strings.Contains(err.Error(), "the log: ") || !strings.Contains(err.Error(), "audit records: ") {
			t.Errorf("it is not said: %v", err)
		}
		start := time.Now()
		stopRecords()
		if took := time.Since(start); took > queued.EndTime {
			t.Errorf("the end takes %s", took)
		}
		in := bufio.NewScanner(stderr)
		for n := 0; in.Scan() && !strings.Contains(in.Text(), `"lost":10`); n++ {
			if n > queued.MaxLines {
				t.Fatal("nothing tells what is lost")
			}
		}
		log.Info("last")
		synctest.Wait()
		start = time.Now()
		cancel()
		if left := <-ended; left != 1 || time.Since(start) != queued.EndTime {
			t.Errorf("%d lines were left after %s", left, time.Since(start))
		}
		_ = to.Close()
		_ = stdout.Close()
	})
}
