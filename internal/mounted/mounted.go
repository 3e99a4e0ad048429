// Package mounted reads files that others mount into a pod, and does not hang with them.
//
// A mounted path may become anything in time: a file, nothing, a named pipe without a writer, a file on
// a volume whose server is gone. A File is read by a goroutine of its own, for which nothing is waited
// for longer than a limit of time, and at the end not at all:
//
//	file := mounted.New("/etc/mirrorset-guard/tls/tls.crt", 1<<20)
//	data, err := file.Read() // again and again, by one goroutine
package mounted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/pause"
)

// interval is how often Poll calls. The kubelet takes a minute or more to bring a changed Secret or
// ConfigMap into a pod, so a few seconds more do not matter. Reading small files is simpler than
// watching them: watches on a folder of symbolic links miss swaps, and a node has few inotify instances.
const interval = 5 * time.Second

// Poll calls read every few seconds until ctx ends.
func Poll(ctx context.Context, read func()) {
	pause.Every(ctx, interval, read)
}

// timeLimit is how long a reading may take: many times what a file of a megabyte does.
const timeLimit = 3 * time.Second

// ErrNotRegular is returned for a folder, a named pipe or a device. Test with errors.Is.
var ErrNotRegular = errors.New("not a regular file")

// ErrHangs is returned where a reading does not end. Test with errors.Is.
var ErrHangs = errors.New("its file system does not answer")

// A File is one that is read again and again. It is not safe for concurrent use.
type File struct {
	path    string
	read    func(path string, most int64) ([]byte, error)
	most    int64
	pending *reading // one that has not ended
}

// A reading is one that is under way.
type reading struct {
	began time.Time
	done  chan struct{} // closed at its end
	data  []byte
	err   error
}

// New returns the File at path. It reads at most one byte more than most.
func New(path string, most int64) *File { return &File{path: path, most: most, read: read} }

// Read returns what the file holds now: most+1 bytes if it holds more than most. The error names
// the path. While an earlier reading hangs, no other is begun: each would keep a thread.
func (f *File) Read() ([]byte, error) {
	if f.pending != nil {
		select {
		case <-f.pending.done: // it read an earlier state
		default:
			return nil, f.hangs()
		}
	}
	r := &reading{began: time.Now(), done: make(chan struct{})}
	f.pending = r
	go func() {
		defer close(r.done)
		r.data, r.err = f.read(f.path, f.most)
	}()
	timer := time.NewTimer(timeLimit)
	defer timer.Stop()
	select {
	case <-r.done:
		f.pending = nil
		return r.data, r.err
	case <-timer.C:
		return nil, f.hangs()
	}
}

// hangs returns the error about the reading that has not ended. It does not say for how long, as
// that would be another error each time.
func (f *File) hangs() error {
	return fmt.Errorf("%s has been read without an end since %s: %w", f.path, f.pending.began.UTC().Format(time.RFC3339), ErrHangs)
}

// read reads a regular file. To open a named pipe waits for a writer unless it is opened
// without blocking; for a regular file that makes no difference.
func read(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}
