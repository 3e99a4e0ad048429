package auditlog

import (
	"fmt"
	"io"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/review/audit"
)

// Settings are the destination and the extent of records.
type Settings struct {
	To     Destination
	File   FileSettings // for the destination File
	Detail audit.Detail
}

// A Destination is the place that records go to.
type Destination int

// The destinations.
const (
	// Nowhere: nothing is recorded.
	Nowhere Destination = iota
	// Stdout is standard output.
	Stdout
	// File is a file that is rotated.
	File
)

// FileSettings describe a file that is rotated, with its backups in the same folder:
// audit-2026-11-22T10-00-00.000.log, and .gz if they are compressed.
type FileSettings struct {
	// Path is where the file is. "{replica}" in it stands for the name of the replica, so that
	// replicas may share a folder.
	Path string
	// MaxSize is the size, in MiB, beyond which the file is rotated. It has to be more than the
	// longest record has, which is 3 MiB.
	MaxSize int
	// MaxFiles is how many backups are kept; 0 for all.
	MaxFiles int
	// MaxAge is for how many days backups are kept; 0 for ever.
	MaxAge int
	// Compress compresses backups.
	Compress bool
}

// For returns s for a replica.
func (s FileSettings) For(replica string) FileSettings {
	s.Path = strings.ReplaceAll(s.Path, "{replica}", replica)
	return s
}

// sameDestination reports whether records go where they went before.
func (s Settings) sameDestination(before Settings) bool {
	return s.To == before.To && (s.To != File || s.File == before.File)
}

// open returns the destination; nil for Nowhere.
func (s Settings) open(stdout io.Writer) (destination, error) {
	switch s.To {
	case Stdout:
		return &stream{to: stdout}, nil
	case File:
		f, err := openFile(s.File)
		if err != nil {
			return nil, fmt.Errorf("opening the audit file: %w", err)
		}
		return f, nil
	default:
		return nil, nil
	}
}

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
