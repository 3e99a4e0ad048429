// Package terminal draws frames of text on a terminal, each of which replaces the last.
//
//	screen, ok := terminal.Open(os.Stdout)
//	defer screen.Close() // the terminal is then as it was before
//	go screen.Run(ctx)   // Ctrl-Z gives the terminal back, until the program goes on
//	width, height := screen.Size()
//	screen.Draw(lines)
//
// It needs no more of a terminal than the control sequences of a VT100, an alternate screen
// and a cursor that can be hidden, which all common ones have. Unchanged lines
// are not written again, and each frame is one write: nothing flickers, and little goes
// over a slow connection. It reads no keys and leaves the terminal's modes alone: Ctrl-C is a
// signal as ever.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// The control sequences (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html). A terminal
// ignores those private modes that it does not know, such as 2026, by which it shows what is
// written between on and off at once.
const (
	enter     = "\x1b[?1049h\x1b[?25l\x1b[?7l" // alternate screen, no cursor, no wrapping
	leave     = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	syncOn    = "\x1b[?2026h"
	syncOff   = "\x1b[?2026l"
	clear     = "\x1b[2J"
	clearRest = "\x1b[K"
)

// A Screen is a terminal that frames are drawn on.
type Screen struct {
	file *os.File

	mu            sync.Mutex
	frame         []string // what Draw was called with
	width, height int
	lines         []string // as they are on the screen
	entered       bool
}

// Open returns the screen of w, or false if w is not a terminal that can draw.
func Open(w io.Writer) (*Screen, bool) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, false
	}
	if t := os.Getenv("TERM"); t == "" || t == "dumb" {
		return nil, false
	}
	return &Screen{file: file}, true
}

// The size of a terminal that does not tell, and the least that is drawn on.
const (
	defaultWidth, defaultHeight = 80, 24
	leastWidth, leastHeight     = 20, 4
)

// Size returns how many columns and lines there are now.
func (s *Screen) Size() (width, height int) {
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return defaultWidth, defaultHeight
	}
	return max(width, leastWidth), max(height, leastHeight)
}

// Draw puts lines on the screen instead of what is there. What does not fit is cut off. Lines
// must have no control characters. While the program is in the background nothing is drawn.
func (s *Screen) Draw(lines []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frame = lines
	return s.draw()
}

// redraw draws the last frame, whatever is on the screen.
func (s *Screen) redraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frame != nil {
		s.width, s.height = 0, 0
		_ = s.draw() // the next Draw reports a terminal that is gone
	}
}

func (s *Screen) draw() error {
	if s.isBackground() {
		return nil
	}
	columns, rows := s.Size()
	lines := s.frame
	var b bytes.Buffer
	b.WriteString(syncOn)
	if !s.entered {
		b.WriteString(enter)
		s.entered = true
	}
	if columns != s.width || rows != s.height {
		b.WriteString(clear)
		s.width, s.height, s.lines = columns, rows, make([]string, rows)
	}
	drawn := make([]string, rows)
	for i := range drawn {
		if i < len(lines) {
			drawn[i] = Cut(lines[i], columns)
		}
		if drawn[i] != s.lines[i] {
			fmt.Fprintf(&b, "\x1b[%d;1H%s", i+1, drawn[i])
			if Width(drawn[i]) < columns { // else the cursor is still on the last column
				b.WriteString(clearRest)
			}
		}
	}
	if slices.Equal(drawn, s.lines) && !bytes.Contains(b.Bytes(), []byte(clear)) {
		return nil
	}
	s.lines = drawn
	b.WriteString(syncOff)
	_, err := s.file.Write(b.Bytes())
	return err
}

// Close gives the terminal back as it was.
func (s *Screen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frame = nil
	return s.leave()
}

func (s *Screen) leave() error {
	if !s.entered {
		return nil
	}
	s.entered, s.width, s.height, s.lines = false, 0, 0, nil
	_, err := io.WriteString(s.file, leave)
	return err
}

// Cut returns as much of line as fits into so many columns; if some is cut off, it ends in "…".
func Cut(line string, columns int) string {
	if Width(line) <= columns {
		return line
	}
	used := 0
	for i, r := range line {
		if used += runeWidth(r); used > columns-1 {
			return line[:i] + "…"
		}
	}
	return line
}

// Width returns how many columns line takes.
func Width(line string) int {
	columns := 0
	for _, r := range line {
		columns += runeWidth(r)
	}
	return columns
}

// runeWidth restates wcwidth for what prints: East Asian characters are two columns wide, and
// marks go on top of what is before them.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}
