// Package page makes what commands answer into a page: one HTML file that a browser shows without any
// request, that can be read without scripts, printed, and passed on with a ticket.
//
//	err := page.WriteReview(w, record.Document(), page.Context{Time: now, Cluster: "cluster.yaml"})
//
// It is pure: the same document and Context give the same page. It knows documents alone
// (api/v1alpha1), so a page cannot say more than they do. Their contents may come from strangers: all
// of it goes through package text and html/template, and the page's Content-Security-Policy allows the
// styles and the script that are written here and nothing else.
//
// A page is bounded (MaxBytes). The most important parts come first, and where something is left out
// the page says how much, and which command has it.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// MaxBytes is what a page has at most.
const MaxBytes = 2_000_000

// A Context holds what a page says beside its document. Empty fields are left out.
type Context struct {
	// Time is when the answer was given.
	Time time.Time
	// Cluster is where the cluster's objects come from: the API server's address, or a file.
	Cluster string
	// Requester is who asks for the change, or who asked for the page.
	Requester string
	// Version is that of the program.
	Version string
	// Whole is the command that prints all that a page may leave out ("mirrorset-guard check -o json").
	Whole string
}

//go:embed assets
var assets embed.FS

var (
	style, script = asset("style.css"), asset("script.js")
	// securityPolicy allows the page's own style and script: nothing is fetched, sent or framed.
	securityPolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", hashOf(style), hashOf(script))
	templates      = template.Must(template.New("").Funcs(template.FuncMap{
		"number": text.Number, "sign": func(kind string) string { return signs[kind] },
	}).ParseFS(assets, "assets/*.html"))
	// signs has the sign of each kind, so that no colour is the only carrier of a meaning.
	signs = map[string]string{"bad": "✕", "warn": "!", "good": "✓", "unknown": "?", "blocked": "⊘", "note": "·", "left": "·"}
)

func asset(name string) string {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(data)
}

// hashOf names an inline style or script in a Content-Security-Policy.
func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// SecurityPolicy returns the Content-Security-Policy of each page, for a server that sends it as a
// header too.
func SecurityPolicy() string {
	return securityPolicy + "; frame-ancestors 'none'" // which has no effect in a page
}

// A layout is a page.
type layout struct {
	Title string
	// Badge is the answer in a word or two, and Kind its colour and sign: one of those of signs.
	Badge, Kind string
	// Sentence is the answer in one.
	Sentence string
	// Basis says when, of what and for whom; lines without a value are left out.
	Basis    []basis
	Sections []*section
	Context  Context
	// Asked is set if registries were.
	Asked bool

	Policy string
	Style  template.CSS
	Script template.JS
}

// A basis is one line of what an answer rests on.
type basis struct{ Name, Value string }

// A section is a part of a page with a title.
type section struct {
	ID, Title, Lead string
	// Note stands behind the title: how many there are.
	Note  string
	Parts []part
	// last is set for a section that has the room which the others leave.
	last bool
	Body template.HTML
}

// A part is a table, a list or a picture of a section.
type part struct {
	// template is the name of the frame; with "-row", that of each of rows. They are rendered while there is room.
	template string
	rows     []any
	// most is how many bytes the rows may have, 0 for what room the page has.
	most int

	// Data is for the frame alone: a table, a heading, or a last line.
	Data any
	// Rows are rendered; Left is how many found no room, and Whole the command that has them.
	Rows  template.HTML
	Left  int
	Whole string
}

// partOf returns a part with a row for each of rows.
func partOf[T any](template string, data any, rows []T) part {
	p := part{template: template, Data: data}
	for i := range rows {
		p.rows = append(p.rows, &rows[i])
	}
	return p
}

// A line is one of a list. A line of a list about which nothing was found has no Kind.
type line struct{ Kind, Text string }

// listOf returns a list of texts, below a heading if there is one.
func listOf(heading, kind string, texts []string) part {
	lines := make([]line, len(texts))
	for i, t := range texts {
		lines[i] = line{kind, t}
	}
	return partOf("list", heading, lines)
}

// add adds a section, unless nothing is in it.
func (l *layout) add(s section, parts ...part) {
	for _, p := range parts {
		if len(p.rows) > 0 {
			s.Parts = append(s.Parts, p)
		}
	}
	if len(s.Parts) > 0 {
		l.Sections = append(l.Sections, &s)
	}
}

// spare is the room for the parts around the sections, and aroundSection that for the frame of each.
const spare, aroundSection = 60_000, 400

// write renders the sections, and writes the page.
func (l layout) write(w io.Writer) error {
	room := MaxBytes - spare - len(style) - len(script)
	for _, last := range []bool{false, true} {
		for _, s := range l.Sections {
			if s.last != last {
				continue
			}
			room -= aroundSection + 2*len(s.Title) // which the contents have as well
			for i := range s.Parts {
				s.Parts[i].Whole = l.Context.Whole
				body, err := s.Parts[i].render(room)
				if err != nil {
					return err
				}
				s.Body += body
				room -= len(body)
			}
		}
	}
	l.Policy = securityPolicy
	l.Style, l.Script = template.CSS(style), template.JS(script) //nolint:gosec // they are embedded
	c := l.Context
	l.Basis = append(l.Basis, basis{"Time", utc(c.Time)}, basis{"Cluster", text.Line(c.Cluster)}, basis{"Asked by", text.Line(c.Requester)}, basis{"mirrorset-guard", c.Version})
	return templates.ExecuteTemplate(w, "page.html", l)
}

// render renders p with as many rows as there is room for.
func (p part) render(room int) (template.HTML, error) {
	if p.most > 0 {
		room = min(room, p.most)
	}
	var b bytes.Buffer
	for i, row := range p.rows {
		before := b.Len()
		if err := templates.ExecuteTemplate(&b, p.template+"-row", row); err != nil {
			return "", err
		}
		if b.Len() > room {
			b.Truncate(before)
			p.Left = len(p.rows) - i
			break
		}
	}
	p.Rows = template.HTML(b.String()) //nolint:gosec // a template has escaped it
	b.Reset()
	err := templates.ExecuteTemplate(&b, p.template, p)
	if p.Left > 0 && err == nil {
		err = templates.ExecuteTemplate(&b, "left", p)
	}
	return template.HTML(b.String()), err //nolint:gosec // as above
}

func utc(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
