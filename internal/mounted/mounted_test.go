package mounted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRead: a file is read as it is now, whatever it was before.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := New(path, 4)
	for _, step := range []struct {
		reason string
		make   func() error
		want   string
		err    error
	}{
		{"nothing", func() error { return nil }, "", fs.ErrNotExist},
		{"a file", func() error { return os.WriteFile(path, []byte("abcd"), 0o600) }, "abcd", nil},
		{"one that is too large", func() error { return os.WriteFile(path, []byte("abcdefgh"), 0o600) }, "abcde", nil},
		{"a pipe without a writer", func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, "", ErrNotRegular},
		{"a folder", func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "", ErrNotRegular},
		{"a link to a device", func() error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) }, "", ErrNotRegular},
		{"a file again", func() error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte("x"), 0o600)) }, "x", nil},
	} {
		must(t, step.make())
		got, err := f.Read()
		if string(got) != step.want || !errors.Is(err, step.err) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %q, %v; want %q, %v", step.reason, got, err, step.want, step.err)
		}
	}
}

// TestHangs: a reading that does not end is given up in time, keeps no other waiting, and is not
// joined by a second one; once it has ended, the file is read anew.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mended := make(chan struct{})
		var begun atomic.Int32
		f := New("/etc/file", 4)
		f.read = func(string, int64) ([]byte, error) {
			begun.Add(1)
			<-mended
			return []byte("old"), nil
		}
		start := time.Now()
		var first string
		for i := range 3 {
			_, err := f.Read()
			if !errors.Is(err, ErrHangs) || !strings.HasPrefix(err.Error(), "/etc/file has been read without an end since ") {
				t.Fatalf("got %v", err)
			}
			if i == 0 {
				first = err.Error()
			}
			if err.Error() != first {
				t.Errorf("another error each time, which is news each time: %v", err)
			}
		}
		if took := time.Since(start); took != timeLimit || begun.Load() != 1 {
			t.Errorf("%d readings were begun, and waited for %s, want one and %s", begun.Load(), took, timeLimit)
		}
		close(mended)
		synctest.Wait()
		f.read = func(string, int64) ([]byte, error) { return []byte("new"), nil }
		if got, err := f.Read(); string(got) != "new" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
