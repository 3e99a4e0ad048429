package auditlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	auditv1alpha1 "github.com/mirrorset-guard/mirrorset-guard/api/audit/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/queued"
)

// A disk keeps what is written, as long as it is not full or blocked.
type disk struct {
	mu      sync.Mutex
	written bytes.Buffer
	full    bool
	// half is how many bytes of the next line find room.
	half    int
	blocked chan struct{} // nil: it is not
}

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	blocked := d.blocked
	d.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		n := min(d.half, len(p))
		d.half = 0
		d.written.Write(p[:n])
		return n, errors.New("no space left on device")
	}
	return d.written.Write(p)
}

func (d *disk) set(full bool, half int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.half = full, half
}

func (d *disk) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Split(strings.TrimSuffix(d.written.String(), "\n"), "\n")
}

type started struct {
	*Log
	metrics *prometheus.Registry
	logged  *[]string
	stop    func()
}

// start starts a Log that writes to w, within a bubble of synctest.
func start(t *testing.T, w io.Writer) started {
	t.Helper()
	var mu sync.Mutex
	var logged []string
	s := started{metrics: prometheus.NewRegistry(), logged: &logged}
	log, err := New(Options{
		Stdout: w, Guard: auditv1alpha1.Guard{Replica: "r"}, Metrics: s.metrics,
		Log: funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, args)
		}, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Configure(Stdout); err != nil {
		t.Fatal(err)
	}
	s.Log = log
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		log.Run(ctx)
	}()
	s.stop = func() {
		cancel()
		<-done
	}
	return s
}

func (s started) count(result string) int {
	return int(testutil.ToFloat64(s.Log.metrics.lines.WithLabelValues(result)))
}

func decision(i int) auditv1alpha1.Decision { return auditv1alpha1.Decision{UID: fmt.Sprint(i)} }

// uids returns the uids of the lines that hold a decision, and "lost N" for those that hold a
// loss.
func uids(t *testing.T, lines []string) []string {
	t.Helper()
	var all []string
	for _, line := range lines {
		var record struct {
			Kind, UID string
			Lost      int
		}
		switch err := json.Unmarshal([]byte(line), &record); {
		case err != nil:
			all = append(all, "broken")
		case record.Kind == auditv1alpha1.LossKind:
			all = append(all, fmt.Sprintf("lost %d", record.Lost))
		default:
			all = append(all, record.UID)
		}
	}
	return all
}

// TestFullDisk: while it is full, records wait; they come in order afterwards, and half a line
// does not spoil the next.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{full: true, half: 10}
		s := start(t, d)
		s.Record(decision(0))
		s.Record(decision(1))
		time.Sleep(5 * time.Second)
		if testutil.ToFloat64(s.Log.metrics.age) < 5 {
			t.Error("the metrics do not tell")
		}
		d.set(false, 0)
		time.Sleep(2 * time.Second)
		s.stop()
		if got := uids(t, d.lines()); !slices.Equal(got, []string{"broken", "0", "1"}) {
			t.Errorf("got %q", got)
		}
		if len(*s.logged) != 2 || !strings.Contains((*s.logged)[0], "no space left") || !strings.Contains((*s.logged)[1], "can be written again") {
			t.Errorf("log %q", *s.logged)
		}
	})
}

// TestBlockedPipe: nobody reads. Recording goes on without waiting; what finds no room is
// counted, and told in the records.
func TestBlockedPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{blocked: make(chan struct{})}
		s := start(t, d)
		var want []string
		for i := range queued.MaxLines + 7 {
			s.Record(decision(i))
			want = append(want, fmt.Sprint(i))
		}
		if s.count("lost") != 7 || len(*s.logged) != 1 || !strings.Contains((*s.logged)[0], "the queue is full") {
			t.Errorf("%d lost, log %q", s.count("lost"), *s.logged)
		}
		close(d.blocked)
		synctest.Wait()
		s.Record(decision(-1))
		s.stop()
		got := uids(t, d.lines())
		if want = append(want[:queued.MaxLines], "lost 7", "-1"); !slices.Equal(got, want) || s.count("written") != len(want) {
			t.Errorf("%d lines, %d said to be written, the last of them %q", len(got), s.count("written"), got[len(got)-3:])
		}
	})
}

// TestBlockedDestinationHoldsUpNothing: neither a change of the configuration nor a request. A file that hangs is not opened anew.
func TestBlockedDestinationHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{blocked: make(chan struct{})}
		s := start(t, d)
		s.Record(decision(0))
		synctest.Wait() // it is being written
		if err := s.Configure(Nowhere); err != nil {
			t.Fatal(err)
		}
		s.Record(decision(1))
		opened := make(chan bool, 9)
		s.openFile = func(string, int) (*file, error) {
			opened <- true
			<-d.blocked
			return nil, errEnded
		}
		for range 3 {
			if err := s.Configure("/blocked"); !errors.Is(err, errHangs) || len(opened) != 1 {
				t.Errorf("a file that hangs, opened %d times: %v", len(opened), err)
			}
		}
		if err := s.Configure(Nowhere); err != nil || s.opening != nil {
			t.Errorf("kept although nobody wants it any more: %v", err)
		}
		close(d.blocked)
		s.stop()
		if got := uids(t, d.lines()); !slices.Equal(got, []string{"0"}) {
			t.Errorf("written although switched off: %q", got)
		}
	})
}

// TestQueueIsBoundedInBytes: large records find less room.
func TestQueueIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{blocked: make(chan struct{})}
		s := start(t, d)
		for i := range 20 {
			s.Record(auditv1alpha1.Decision{UID: fmt.Sprint(i), Reason: strings.Repeat("x", 1<<20)})
		}
		if lost := s.count("lost"); lost < 12 || lost > 14 {
			t.Errorf("%d lost of 20 MiB, with room for 8", lost)
		}
		close(d.blocked)
		s.stop()
	})
}

// TestEndDoesNotHang: a pipe that stays blocked ends the guard some seconds later, and what is
// lost is said.
func TestEndDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{blocked: make(chan struct{})}
		s := start(t, d)
		for i := range 3 {
			s.Record(decision(i))
		}
		began := time.Now()
		s.stop()
		if took := time.Since(began); took != queued.EndTime {
			t.Errorf("it took %s", took)
		}
		if s.count("lost") != 3 || len(*s.logged) != 1 || !strings.Contains((*s.logged)[0], `"lost"=3`) {
			t.Errorf("%d lost, log %q", s.count("lost"), *s.logged)
		}
		close(d.blocked)
	})
}

// logTo returns a Log that writes to a file, and is not running.
func logTo(t *testing.T, path string) *Log {
	t.Helper()
	log, err := New(Options{Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Configure(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.to.Close() })
	return log
}

// write has log write decisions.
func write(t *testing.T, log *Log, decisions ...auditv1alpha1.Decision) {
	t.Helper()
	for _, d := range decisions {
		log.Record(d)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ended)
}

func read(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// TestFile: records follow those that are there, half a line of an earlier process included,
// and the file is its owner's only.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "audit-r.log")
	log := logTo(t, path)
	write(t, log, decision(0))
	if err := os.WriteFile(path, append([]byte(strings.Join(read(t, path), "\n")), "\n{\"half"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, logTo(t, path), decision(1))
	if got := uids(t, read(t, path)); !slices.Equal(got, []string{"0", "broken", "1"}) {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: the file has the permissions %v", err, info.Mode())
	}
}

// TestFileIsRotated: beyond its size, into backups that are compressed and its owner's only.
func TestFileIsRotated(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	f, err := openFile(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for i := range 3 {
		line, err := auditv1alpha1.Decision{UID: fmt.Sprint(i), Reason: strings.Repeat("x", 700<<10)}.Line()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	var backups []string
	for deadline := time.Now().Add(time.Minute); len(backups) < 2 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // lumberjack has no event for it
		backups, _ = filepath.Glob(filepath.Join(dir, "audit-*.log.gz"))
		if left, _ := filepath.Glob(filepath.Join(dir, "audit-*.log")); len(left) > 0 {
			backups = nil // still being compressed
		}
	}
	if len(backups) != 2 {
		t.Fatalf("%d backups", len(backups))
	}
	var got []string
	for _, backup := range backups {
		got = append(got, uids(t, unpacked(t, backup))...)
	}
	if got = append(got, uids(t, read(t, path))...); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("got %q", got)
	}
}

func unpacked(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %s has the permissions %v", err, path, info.Mode())
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// TestFileIsMovedAway: by somebody else. The next record begins a new one.
func TestFileIsMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := logTo(t, path)
	write(t, log, decision(0))
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write(t, log, decision(1))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, log, decision(2))
	if old, now := uids(t, read(t, path+".old")), uids(t, read(t, path)); old[0] != "0" || now[0] != "2" || len(now) != 1 {
		t.Errorf("%q, then %q", old, now)
	}
}

// TestConfigure: what cannot be opened changes nothing, and what is queued goes where the new
// settings say.
func TestConfigure(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	log := logTo(t, first)
	if err := log.Configure(dir); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	blocker := filepath.Join(dir, "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := log.Configure(filepath.Join(blocker, "a.log")); err == nil {
		t.Error("a folder that is a file")
	}
	write(t, log, decision(0))
	log.Record(decision(1))
	if err := log.Configure(second); err != nil {
		t.Fatal(err)
	}
	write(t, log)
	if a, b := uids(t, read(t, first)), uids(t, read(t, second)); a[0] != "0" || b[0] != "1" {
		t.Errorf("%q, then %q", a, b)
	}
	for _, to := range []string{Nowhere, first} {
		if err := log.Configure(to); err != nil {
			t.Fatal(err)
		}
	}
}
