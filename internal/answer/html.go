package answer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// MaxPage is how many bytes a page has at most.
const MaxPage = 2_000_000

const (
	// spare is the room for the parts around the sections, and aroundSection that for the frame of each.
	spare, aroundSection = 60_000, 400
	// maxText bounds every text of a page, in characters, and maxTitle those around others: a name may have any length.
	maxText, maxTitle = 2000, 500
	// manyRows are so many that details leave them their room: findingsRoom is that of findings in full and briefRoom that of many,
	// in bytes.
	manyRows, findingsRoom, briefRoom = 1000, 450_000, 150_000
	// openFindings is how many objections are unfolded, maxLines how many lines of a finding are shown, and maxListed how many users.
	openFindings, maxLines, maxListed = 10, 40, 12
	// maxKinds is how many kinds of findings the table of them has.
	maxKinds = 60
)

// A Page holds what a page says beside its answer. Empty fields are left out.
type Page struct {
	// Time is when the answer was given.
	Time time.Time
	// Exit is the exit code of the command, with its meaning.
	Exit string
	// Cluster is where the cluster's objects come from: the API server's address, or a file.
	Cluster string
	// Requester is who asks for the change, or who asked for the page.
	Requester string
	// Version is that of the program.
	Version string
	// Whole is the command that prints all that a page may leave out ("mirrorset-guard check -o json").
	Whole string
}

var (
	//go:embed assets/*.html
	assets embed.FS
	//go:embed assets/style.css
	style string
	//go:embed assets/script.js
	script string
	// pagePolicy allows the page's own style and script: nothing is fetched, sent or framed.
	pagePolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", hashOf(style), hashOf(script))
	templates  = template.Must(template.New("").Funcs(template.FuncMap{
		"number": text.Number, "sign": func(t Tone) string { return looks[t].sign }, "kind": func(t Tone) string { return looks[t].kind },
		"cut": func(s string) string { return text.Cut(text.Line(s), maxText) }, "short": text.ShortDigests, "lines": func(s string) string { return text.Cut(text.Lines(s), maxText) }, "line": shownLine, "class": class,
		"copied": func(l Line) bool { return len(l) == 1 && l[0].Code }, "mark": func(s string) string { return strings.Trim(s, "- ") },
		"heading": heading, "middle": middle, "bar": bar, "first": func(lines []string) []string { return text.First(lines, maxLines, "") },
		"users": func(names []string) []string { return text.First(names, maxListed, "") },
	}).ParseFS(assets, "assets/*.html"))
	// looks has the class and the sign of each tone that has a meaning, so that no colour is its only carrier.
	looks = [...]struct{ kind, sign string }{
		Bad: {"bad", "✕"}, Caution: {"warn", "!"}, Good: {"good", "✓"}, Unknown: {"unknown", "?"}, Blocked: {"blocked", "⊘"}, Idle: {"note", "·"}, Past: {"left", "·"},
	}
)

// hashOf names an inline style or script in a Content-Security-Policy.
func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// SecurityPolicy returns the Content-Security-Policy of each page, for a server that sends it as a header too.
func SecurityPolicy() string {
	return pagePolicy + "; frame-ancestors 'none'" // which has no effect in a page
}

func heading(title string) string {
	return text.Cut(text.Line(strings.TrimSuffix(title, ":")), maxTitle)
}

// shownLine returns a line as a page shows it.
func shownLine(line Line) Line {
	line = safe(line)
	for i, s := range line {
		line[i].Text = text.Cut(text.Lines(s.Text), maxText)
	}
	return line
}

// class is that of a cell: its tone, or that of numbers.
func class(cell Line) string {
	if len(cell) != 1 {
		return ""
	}
	if cell[0].Text != "" && strings.Trim(cell[0].Text, "0123456789,") == "" {
		return "n"
	}
	return looks[cell[0].Tone].kind
}

// HTML returns the answer as a page: one file that a browser shows without any request, that can be read without scripts, printed, and
// passed on with a ticket. It has at most MaxPage bytes: where something is left out it says how much, and which command has it.
func (a *Answer) HTML(p Page) (string, error) {
	w := &pageWriter{whole: p.Whole, room: MaxPage - spare - len(style) - len(script)}
	sections, about := a.sections()
	for _, s := range sections {
		w.room -= aroundSection + 2*len(heading(s.Title)) // which the contents have as well
		w.section = heading(s.Title)
		before := w.findings
		for _, block := range s.blocks {
			if w.room > 0 || w.body == "" { // else it says that something is left out
				block.html(w)
			}
		}
		s.Body, w.body = w.body, ""
		if n := w.findings - before; n > 0 && s.Note == "" {
			s.Note = text.Count(n, "finding")
		}
	}
	headline := cmp.Or(a.Headline, text.Capital(a.Subject))
	if a.Headline != "" && a.Headline != a.Subject {
		about = append([]Named{{Name: "Subject", Value: a.Subject}}, about...)
	}
	about = append(about, Named{Name: "Exit code", Value: p.Exit}, Named{Name: "Time", Value: Moment(p.Time)}, Named{Name: "Cluster", Value: p.Cluster},
		Named{Name: "Asked by", Value: p.Requester}, Named{Name: "mirrorset-guard", Value: p.Version})
	var b bytes.Buffer
	err := cmp.Or(w.err, templates.ExecuteTemplate(&b, "page.html", struct {
		Title, Verdict, Headline, Whole, Policy string
		Tone                                    Tone
		Lead                                    []Line
		About                                   []Named
		Sections                                []*section
		Style                                   template.CSS
		Script                                  template.JS
	}{
		strings.TrimPrefix(heading(a.Verdict)+": ", ": ") + heading(cmp.Or(a.Subject, headline)), a.Verdict, headline, p.Whole, pagePolicy, a.Tone, a.Lead, about,
		slices.DeleteFunc(sections, func(s *section) bool { return s.Body == "" }),
		template.CSS(style), template.JS(script), //nolint:gosec // they are embedded
	}))
	return b.String(), err
}

// Moment returns a time in the words of pages, "" for none.
func Moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// A section is a part of a page with a title.
type section struct {
	Section
	Body   template.HTML
	blocks []Block
}

// sections returns the blocks by the sections of a page, those that are last at the end, and the named values. A section that comes again
// goes on.
func (a *Answer) sections() (all []*section, about []Named) {
	to := func(s Section) *section {
		i := slices.IndexFunc(all, func(o *section) bool { return o.ID == s.ID })
		if i < 0 {
			i, all = len(all), append(all, &section{Section: s})
		}
		return all[i]
	}
	figures, current := to(Section{ID: "figures", Title: "At a glance"}), to(Section{ID: "answer", Title: "The answer"})
	for _, b := range append(drawn(a.Blocks), List{ID: "notes", Title: "What it rests on", Items: Bullets(slices.Concat(a.Notes, a.Basis))}) {
		switch b := b.(type) {
		case Section:
			current = to(b)
		case Named:
			about = append(about, b)
		case Figures:
			figures.blocks = append(figures.blocks, b)
		case List:
			if b.ID != "" && len(b.Items) > 0 {
				current = to(Section{ID: b.ID, Title: heading(b.Title)})
				b.Title = ""
			}
			current.blocks = append(current.blocks, b)
		default:
			current.blocks = append(current.blocks, b)
		}
	}
	last := slices.DeleteFunc(slices.Clone(all), func(s *section) bool { return !s.Last })
	return append(slices.DeleteFunc(all, func(s *section) bool { return s.Last }), last...), about
}

// drawn returns blocks with those that are made for a page.
func drawn(blocks []Block) (all []Block) {
	for _, b := range blocks {
		if d, ok := b.(Drawn); ok {
			all = append(all, drawn(d.Blocks())...)
			continue
		}
		all = append(all, b)
	}
	return all
}

// A pageWriter collects the parts of a section.
type pageWriter struct {
	body     template.HTML
	room     int // bytes
	section  string
	whole    string
	findings int // so far
	err      error
}

// rows are the rows of a part of a page: n, of which at most so many are shown, with at most so many bytes; 0 for what room there is.
type rows struct {
	n, most, bytes int
	row            func(int) any
}

// draw writes a part with as many rows as there is room for. Nothing in it does anything but be shown.
func (w *pageWriter) draw(name string, frame any, r rows) {
	if r.n == 0 || w.err != nil {
		return
	}
	room := max(0, w.room)
	if r.bytes > 0 {
		room = min(room, r.bytes)
	}
	n := r.n
	if r.most > 0 {
		n = min(n, r.most)
	}
	var b bytes.Buffer
	done := 0
	for ; done < n && w.err == nil; done++ {
		before := b.Len()
		w.err = templates.ExecuteTemplate(&b, name+"-row", r.row(done))
		if b.Len() > room {
			b.Truncate(before)
			break
		}
	}
	part := struct {
		Frame          any
		Rows           template.HTML
		Section, Whole string
		Left           int
	}{frame, template.HTML(b.String()), w.section, w.whole, r.n - done} //nolint:gosec // a template has escaped it
	b.Reset()
	if w.err == nil {
		w.err = templates.ExecuteTemplate(&b, name, part)
	}
	if part.Left > 0 && w.err == nil {
		w.err = templates.ExecuteTemplate(&b, "left", part)
	}
	w.body += template.HTML(text.Lines(b.String())) //nolint:gosec // as above
	if w.room -= b.Len(); done < n && b.Len() > r.bytes {
		w.room = 0
	}
}

func (f Figures) html(w *pageWriter) {
	w.draw("figure", nil, rows{n: len(f), row: func(i int) any { return f[i] }})
}

func (p Paragraph) html(w *pageWriter) {
	w.draw("paragraph", nil, rows{n: len(p), row: func(i int) any { return p[i] }})
}

func (l List) html(w *pageWriter) {
	w.draw("list", l, rows{n: len(l.Items), row: func(i int) any { return l.Items[i] }})
}

func (v Verbatim) html(w *pageWriter) {
	w.draw("verbatim", nil, rows{n: 1, row: func(int) any { return string(v) }})
}

func (t Table) html(w *pageWriter) {
	type head struct{ Text, Kind string }
	frame := struct {
		Table
		Heads []head
	}{Table: t}
	for i, h := range t.Head {
		if strings.ToUpper(h) == h {
			h = text.Capital(strings.ToLower(h))
		}
		frame.Heads = append(frame.Heads, head{Text: h})
		if len(t.Rows) > 0 && i < len(t.Rows[0]) && class(t.Rows[0][i]) == "n" {
			frame.Heads[i].Kind = "n"
		}
	}
	w.draw("table", frame, rows{n: len(t.Rows), row: func(i int) any {
		id := ""
		if t.Anchor != "" {
			id = fmt.Sprintf("%s-%d", t.Anchor, i+1)
		}
		return struct {
			ID    string
			Cells []Line
		}{id, t.Rows[i]}
	}})
}

func (fs Findings) html(w *pageWriter) {
	first := w.findings
	w.findings += len(fs)
	id := func(i int) string { return fmt.Sprintf("finding-%d", first+i+1) }
	kinds := Table{Title: "By rule and reason", Head: []string{"Weight", "Rule", "Reason", "Findings", "Namespaces"}}
	for _, g := range fs.groups(func(f *Finding) string { return f.Severity + "\n" + f.Rule + "\n" + f.Reason }) {
		if f := &fs[g.first]; len(kinds.Rows) < maxKinds {
			row := []Line{{{Text: f.Severity, Tone: f.Tone}}, {{Text: f.Rule, Link: "#" + id(g.first)}}, Say(f.Reason), Say(text.Number(g.n)), Say(text.Names(g.namespaces, maxUsers))}
			kinds.Rows = append(kinds.Rows, row)
		}
	}
	kinds.html(w)
	room := findingsRoom
	if len(fs) > manyRows {
		room = briefRoom
	}
	w.draw("card", nil, rows{n: len(fs), bytes: room, row: func(i int) any {
		f := &fs[i]
		return struct {
			*Finding
			ID, About string
			Open      bool
		}{f, id(i), f.subject(), first+i < openFindings && f.Tone == Bad}
	}})
}
