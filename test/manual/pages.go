// Package manual reads the Markdown of this repository as its readers do: its blocks of code, the
// commands typed there and in the text, and where links lead. Its tests, and those of the command, hold
// the manual to the facts.
//
// Each block of code is run, checked or marked, and any other is a mistake:
//
//	<!-- run: WORLD -->        before a block: its commands are run in a world of testdata, and what
//	                           they write is compared with what the block shows. A line "..." stands
//	                           for any lines. The world "installed" is a real API server with the
//	                           manifests. A world "test/image TestImage" is that test
//	<!-- run: WORLD; not run: WORD, REASON -->
//	                           the same without commands that have a word ("logs")
//	<!-- not run: REASON -->   before a block: why it is only checked. Programs, subcommands, flags,
//	                           targets of make and files that it names have to exist
//	<!-- run all: WORLD -->    once on a page: the world of all blocks without a mark of their own
//	(no mark)                  YAML and JSON, which are read by the strict reader of their kind
//
// REASON may be that it is no command at all: a diagram, or a part of an output.
package manual

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A Page is one file of Markdown.
type Page struct {
	// Path is relative to the top of the repository, with slashes.
	Path string
	// Blocks are its blocks of code, in order.
	Blocks []Block
	// Spans are the texts that are set as code within sentences.
	Spans []Span
	// Links are the destinations of its links and pictures.
	Links []Span
	// Anchors are those of its headings, as forges make them.
	Anchors []string
	// Title is its first heading.
	Title string
}

// A Span is a piece of text, and the line that it is on.
type Span struct {
	Text string
	Line int
}

// A Block is a block of code.
type Block struct {
	Page string
	// Line is that of its first line of text, from 1.
	Line int
	// Language is what its fence says, "" if it says nothing or the block is indented.
	Language string
	Text     string
	// World is where it is run, "" if it is not.
	World string
	// Without is a word of the commands that are not run in there, "" if all are.
	Without string
	// Reason says why it is not run, or they are not; "" if there is nothing to explain.
	Reason string
}

// Pages reads all Markdown of the repository whose top is root, except in hidden, built and test folders.
func Pages(root string) ([]Page, error) {
	var pages []Page
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "dist", "node_modules", "testdata"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".md") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		pages = append(pages, Read(filepath.ToSlash(relative), source))
		return nil
	})
	return pages, err
}

// Read reads one page.
func Read(path string, source []byte) Page {
	p := Page{Path: path}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			p.add(n, source)
		}
		return ast.WalkContinue, nil
	})
	if all := markAll.FindSubmatch(source); all != nil {
		for i, b := range p.Blocks {
			if b.World == "" && b.Reason == "" && b.Language == "" {
				p.Blocks[i].World = string(all[1])
			}
		}
	}
	return p
}

func (p *Page) add(n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.FencedCodeBlock:
		p.addBlock(n, string(n.Language(source)), source)
	case *ast.CodeBlock:
		p.addBlock(n, "", source)
	case *ast.CodeSpan:
		p.Spans = append(p.Spans, Span{plain(n, source), lineOf(n, source)})
	case *ast.Link:
		p.Links = append(p.Links, Span{string(n.Destination), lineOf(n, source)})
	case *ast.Image:
		p.Links = append(p.Links, Span{string(n.Destination), lineOf(n, source)})
	case *ast.Heading:
		heading := plain(n, source)
		if p.Title == "" {
			p.Title = heading
		}
		p.Anchors = append(p.Anchors, newAnchor(heading, p.Anchors))
	}
}

// mark is a comment that says how the block after it is tested.
var mark = regexp.MustCompile(`^<!-- (?:run: ([^;]+?))?(?:; )?(?:not run: (.+?))? -->\s*$`)

// markAll is a comment that says so for all blocks of a page that have no mark.
var markAll = regexp.MustCompile(`(?m)^<!-- run all: (.+) -->$`)

// without splits why some of a block is not run.
var without = regexp.MustCompile(`^(\S+), (.+)$`)

func (p *Page) addBlock(n ast.Node, language string, source []byte) {
	lines := n.Lines()
	if lines.Len() == 0 {
		return
	}
	b := Block{Page: p.Path, Line: lineAt(source, lines.At(0).Start), Language: language, Text: string(lines.Value(source))}
	if html, ok := n.PreviousSibling().(*ast.HTMLBlock); ok {
		comment := strings.Split(strings.TrimSpace(string(html.Lines().Value(source))), "\n")
		if found := mark.FindStringSubmatch(comment[len(comment)-1]); found != nil {
			b.World, b.Reason = found[1], found[2]
			if parts := without.FindStringSubmatch(b.Reason); b.World != "" && parts != nil {
				b.Without, b.Reason = parts[1], parts[2]
			}
		}
	}
	p.Blocks = append(p.Blocks, b)
}

// plain returns the text below a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// lineOf returns the line of the first text below a node; of the block around it if there is none.
func lineOf(n ast.Node, source []byte) int {
	line := 0
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			line = lineAt(source, t.Segment.Start)
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	for ; line == 0 && n != nil; n = n.Parent() {
		if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
			line = lineAt(source, n.Lines().At(0).Start)
		}
	}
	return line
}

func lineAt(source []byte, offset int) int { return bytes.Count(source[:offset], []byte("\n")) + 1 }

// notInAnchors is what forges leave out of the anchor of a heading.
var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}\p{M}\p{Pc} -]`)

// newAnchor returns the anchor of a heading that comes after others.
func newAnchor(heading string, others []string) string {
	plain := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
	anchor := plain
	for i := 1; slices.Contains(others, anchor); i++ {
		anchor = plain + "-" + string(rune('0'+i))
	}
	return anchor
}
