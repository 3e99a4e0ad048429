package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A page is one page of the manual.
type page struct {
	// File is the Markdown that it is made of, Name the page.
	File, Name string
	Title      string
	// Parts are its headings with the text below each; the first may have no heading.
	Parts    []part
	source   []byte
	document ast.Node
	markdown goldmark.Markdown
}

// A part is the text below one heading.
type part struct {
	Level           int
	Anchor, Heading string
	Text            string
}

// anchors makes the anchors of headings as forges do, so that a link is good in both places.
type anchors map[string]bool

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}\p{M}\p{Pc} -]`)

// Generate returns the anchor of a heading.
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	plain := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(string(heading)), ""), " ", "-")
	anchor := plain
	for i := 1; a[anchor]; i++ {
		anchor = plain + "-" + strconv.Itoa(i)
	}
	a[anchor] = true
	return []byte(anchor)
}

// Put takes an anchor that is written in the text.
func (a anchors) Put(anchor []byte) { a[string(anchor)] = true }

// comments leaves out HTML: the manual has only comments for its tests.
type comments struct{}

func (comments) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	nothing := func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
		return ast.WalkSkipChildren, nil
	}
	r.Register(ast.KindHTMLBlock, nothing)
	r.Register(ast.KindRawHTML, nothing)
}

func newPage(file string, source []byte) (*page, error) {
	p := &page{File: file, Name: pageOf(file), source: source}
	p.markdown = goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(comments{}, 1))),
	)
	context := parser.NewContext(parser.WithIDs(anchors{}))
	p.document = p.markdown.Parser().Parse(text.NewReader(source), parser.WithContext(context))
	if err := p.refuseHTML(); err != nil {
		return nil, err
	}
	p.split()
	if p.Title == "" {
		return nil, fmt.Errorf("%s has no heading", file)
	}
	return p, nil
}

// refuseHTML refuses HTML other than comments, as it would be left out.
func (p *page) refuseHTML() error {
	return ast.Walk(p.document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		var html []byte
		switch n := n.(type) {
		case *ast.HTMLBlock:
			html = n.Lines().Value(p.source)
			if n.HasClosure() {
				html = append(html, n.ClosureLine.Value(p.source)...)
			}
		case *ast.RawHTML:
			html = n.Segments.Value(p.source)
		default:
			return ast.WalkContinue, nil
		}
		if html = bytes.TrimSpace(html); entering && (!bytes.HasPrefix(html, []byte("<!--")) || !bytes.HasSuffix(html, []byte("-->"))) {
			return ast.WalkStop, fmt.Errorf("%s: the manual has no HTML: %q", p.File, html)
		}
		return ast.WalkContinue, nil
	})
}

// split finds the parts of the page.
func (p *page) split() {
	p.Parts = []part{{}}
	for n := p.document.FirstChild(); n != nil; n = n.NextSibling() {
		heading, ok := n.(*ast.Heading)
		if !ok {
			last := &p.Parts[len(p.Parts)-1]
			last.Text = strings.TrimSpace(last.Text + " " + p.plain(n))
			continue
		}
		title := p.plain(heading)
		if p.Title == "" {
			p.Title = title
		}
		anchor, _ := heading.AttributeString("id")
		p.Parts = append(p.Parts, part{Level: heading.Level, Anchor: string(anchor.([]byte)), Heading: title})
	}
	if p.Parts[0].Text == "" {
		p.Parts = p.Parts[1:]
	}
}

// plain returns the text below a node, with single spaces.
func (p *page) plain(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(p.source))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(p.source))
			}
		default:
			if n.Type() == ast.TypeBlock && !entering {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// render writes the page's own HTML, with links that resolve gives, and pictures that picture does.
func (p *page) render(resolve, picture func(link string) (string, error)) ([]byte, error) {
	err := ast.Walk(p.document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			to, err := resolve(string(link.Destination))
			if err != nil {
				return ast.WalkStop, fmt.Errorf("%s: %s: %w", p.File, link.Destination, err)
			}
			link.Destination = []byte(to)
		}
		if image, ok := n.(*ast.Image); ok && entering {
			to, err := picture(string(image.Destination))
			if err != nil {
				return ast.WalkStop, fmt.Errorf("%s: %s: %w", p.File, image.Destination, err)
			}
			image.Destination = []byte(to)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := p.markdown.Renderer().Render(&b, p.source, p.document); err != nil {
		return nil, fmt.Errorf("%s: %w", p.File, err)
	}
	return b.Bytes(), nil
}
