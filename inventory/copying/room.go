package copying

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
)

// A room is the memory that a run may take for what it reads of images, and knows of them: their builders choose how much
// that is of each, and how many there are.
type room struct{ left atomic.Int64 }

const (
	// maxBytes is what one image may take, with what is attached to it, and more than any real one.
	maxBytes = 8 << 20
	// maxRoom is for all images. A pod has less: while they are decoded, they take up to four times what they are counted for.
	maxRoom  = 1 << 30
	podShare = 8
	// imageShare is the part of what is left that one image may take: few large ones do not take the place of many small ones.
	imageShare = 16
	// elementCost is for what becomes of an element of a list, or of a field. What is known of a blob takes that of three.
	elementCost = 200
)

var (
	errTooLarge = fmt.Errorf("its manifests take more than %d MiB, with what is attached to it; no more are read", maxBytes>>20)
	errNoRoom   = errors.New("this run has no memory left for its manifests, beside those of other images: run sync again")
)

func newRoom() *room {
	r := &room{}
	r.give(min(debug.SetMemoryLimit(-1)/podShare, maxRoom)) // which is GOMEMLIMIT
	return r
}

// cost is what text takes as long as it is kept.
func cost(text []byte) int64 { return int64(len(text) + elementCost*bytes.Count(text, []byte(","))) }

// take takes n bytes for an image that then has all of mine; it takes them, too, if that is too much.
func (r *room) take(n, mine int64) error {
	left := r.left.Add(-n)
	switch {
	case mine > maxBytes:
		return errTooLarge
	case mine > left/imageShare:
		return errNoRoom
	default:
		return nil
	}
}

func (r *room) give(n int64) { r.left.Add(n) }

// A charged is the body of an answer that a library decodes as a whole. It takes room until it is closed.
type charged struct {
	io.ReadCloser
	room  *room
	taken int64
}

// Read implements io.Reader.
func (c *charged) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	more := cost(p[:n])
	c.taken += more
	if full := c.room.take(more, c.taken); n > 0 && full != nil {
		return 0, full
	}
	return n, err
}

// Close implements io.Closer.
func (c *charged) Close() error {
	c.room.give(c.taken)
	c.taken = 0
	return c.ReadCloser.Close()
}
