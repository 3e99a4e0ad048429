package changefile

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// A Position is a line and a column in what was read, and the object there.
type Position struct {
	// Object is the object there, by name ("ImageTagMirrorSet apps").
	Object string
	// File is the name under which it was read: a path, or StandardInput.
	File string
	// Line and Column count from 1, columns in characters. EndColumn is where it ends on that line, 0 if
	// that is not known.
	Line, Column, EndColumn int
}

// Find returns where the objects that were read name scope as a source, as a scope of an image policy or
// in a registry list: in those objects that are called one of names, or in all if there are none.
func (r *Reader) Find(scope string, names ...string) []Position {
	var found []Position
	for _, n := range r.origins {
		if !n.isOneOf(names) {
			continue
		}
		if node := n.scalar(scope); node != nil {
			found = append(found, n.position(node))
		}
	}
	return found
}

// Objects returns where objects begin that are called one of names, all if there are none.
func (r *Reader) Objects(names ...string) []Position {
	var found []Position
	for _, n := range r.origins {
		if n.isOneOf(names) {
			found = append(found, n.position(n.node()))
		}
	}
	return found
}

// An origin is the document that something was read from and, in lists, the number of the item: in words
// for messages, and to be found again.
type origin struct {
	name  string
	in    *document
	items []int // of nested lists
}

// item returns the origin of an item.
func (p origin) item(i int) origin {
	return origin{fmt.Sprintf("%s, item %d", p.name, i+1), p.in, append(p.items[:len(p.items):len(p.items)], i)}
}

// An objectOrigin is that of an object.
type objectOrigin struct {
	object string
	origin

	scalars map[string]*yaml.Node // below spec, the first of each value; nil until it is asked for
}

// scalar returns the first scalar below spec that is value, mirrors left out; nil if there is none.
func (n *objectOrigin) scalar(value string) *yaml.Node {
	if n.scalars == nil {
		n.scalars = map[string]*yaml.Node{}
		n.collect(fieldOf(n.node(), "spec"))
	}
	return n.scalars[value]
}

// collect takes the scalars below node. An alias is where it stands, and is looked into no further.
func (n *objectOrigin) collect(node *yaml.Node) {
	if node == nil {
		return
	}
	if scalar := resolved(node); scalar.Kind == yaml.ScalarNode {
		if n.scalars[scalar.Value] == nil {
			n.scalars[scalar.Value] = node
		}
		return
	}
	for i, child := range node.Content {
		isKey := node.Kind == yaml.MappingNode && i%2 == 0
		isMirrors := node.Kind == yaml.MappingNode && i%2 == 1 && node.Content[i-1].Value == "mirrors"
		if !isKey && !isMirrors {
			n.collect(child)
		}
	}
}

func (n *objectOrigin) isOneOf(names []string) bool {
	return len(names) == 0 || slices.Contains(names, n.object)
}

// node returns the object, nil if the parser does not find it again.
func (n *objectOrigin) node() *yaml.Node {
	node := n.in.node()
	for _, i := range n.items {
		list := fieldOf(node, "items")
		if list == nil || i >= len(list.Content) {
			return nil
		}
		node = list.Content[i]
	}
	return node
}

// position returns that of node; of the document, if node is nil.
func (n *objectOrigin) position(node *yaml.Node) Position {
	p := Position{Object: n.object, File: n.in.file, Line: n.in.line, Column: n.in.column}
	if node == nil {
		return p
	}
	if node.Line == 1 {
		p.Column += node.Column - 1
	} else {
		p.Column = node.Column
	}
	p.Line += node.Line - 1
	if width := utf8.RuneCountInString(node.Value); node.Kind == yaml.ScalarNode && node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		if node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			width += 2
		}
		p.EndColumn = p.Column + width
	}
	return p
}

// A document is a text that holds one document, and where it begins.
type document struct {
	file         string
	text         []byte
	line, column int

	parsed bool
	root   *yaml.Node
}

// node returns the value of the document; nil if the parser that knows positions rejects what the other
// one has read.
func (d *document) node() *yaml.Node {
	if d.parsed {
		return d.root
	}
	d.parsed = true
	var node yaml.Node
	if err := yaml.Unmarshal(d.text, &node); err == nil && len(node.Content) > 0 {
		d.root = node.Content[0]
	}
	return d.root
}

// A span is a part of a text, in bytes.
type span struct{ from, to int }

// in returns the document at s in text, which begins on a line of a file.
func (s span) in(text []byte, file string, line int) *document {
	if s.to > len(text) {
		return &document{file: file, line: line, column: 1}
	}
	before := text[:s.from]
	lastLine := before[bytes.LastIndexByte(before, '\n')+1:]
	return &document{file: file, text: text[s.from:s.to], line: line + bytes.Count(before, []byte("\n")), column: utf8.RuneCount(lastLine) + 1}
}

// fieldOf returns the value of a key of a mapping, nil if there is none.
func fieldOf(mapping *yaml.Node, key string) *yaml.Node {
	if mapping = resolved(mapping); mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return resolved(mapping.Content[i+1])
		}
	}
	return nil
}

// resolved returns what an alias stands for.
func resolved(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
