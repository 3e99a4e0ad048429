package auditlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
)

// maxMiB is the size beyond which a file is rotated, and maxFiles how many compressed backups are kept
// in the same folder: 1.1 GB at the very most, and years of a usual cluster.
const (
	maxMiB   = 100
	maxFiles = 10
)

// A file is a log file that lumberjack rotates, as it does the API server's own audit log. This type
// adds that the file is readable by its owner only, and that the next line begins a new file if it
// was moved or removed.
type file struct {
	stream
	logger *lumberjack.Logger
	// known is the file that the last line went to; nil if that is not known.
	known fs.FileInfo
}

// private are the permissions of the file, its backups and its folder: records say who runs
// what.
const (
	private       = 0o600
	privateFolder = 0o700
)

// openFile returns the file, which it creates if need be, or why it cannot be written.
func openFile(path string, maxMiB int) (*file, error) {
	whole, err := prepare(path)
	if err != nil {
		return nil, err
	}
	f := &file{logger: &lumberjack.Logger{Filename: path, MaxSize: maxMiB, MaxBackups: maxFiles, Compress: true}}
	f.stream = stream{to: f.logger, broken: !whole}
	return f, nil
}

// prepare makes sure that there is a file that can be written, and reports whether it ends with
// a whole line. A crash may have left half a one.
func prepare(path string) (whole bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), privateFolder); err != nil {
		return false, err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, private)
	if err != nil {
		return false, err
	}
	err = f.Chmod(private) // it may be older
	if err == nil {
		whole, err = endsWhole(f)
	}
	return whole, errors.Join(err, f.Close())
}

func endsWhole(f *os.File) (bool, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return true, err
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, size-1)
	return last[0] == '\n', err
}

// Write implements io.Writer.
func (f *file) Write(line []byte) (int, error) {
	if now, err := os.Stat(f.logger.Filename); f.known != nil && (err != nil || !os.SameFile(now, f.known)) {
		_ = f.logger.Close() // its lines are out of reach
	}
	n, err := f.stream.Write(line)
	f.known = nil
	if err != nil {
		_ = f.logger.Close() // the next try opens it again
	} else if now, err := os.Stat(f.logger.Filename); err == nil {
		f.known = now
	}
	return n, err
}

// Close implements io.Closer.
func (f *file) Close() error { return f.logger.Close() }

// A stream is a destination that ends an incomplete line before it writes the next one.
type stream struct {
	to     io.Writer
	broken bool
}

// Write implements io.Writer.
func (s *stream) Write(line []byte) (int, error) {
	if s.broken {
		line = append([]byte("\n"), line...)
	}
	n, err := s.to.Write(line)
	if n > 0 {
		s.broken = n < len(line)
	}
	return n, err
}

// Close implements io.Closer. The stream is not its own.
func (*stream) Close() error { return nil }
