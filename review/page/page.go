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
	"net/url"
	"strings"
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
	// Traffic is that with the registries that were asked.
	Traffic []Traffic
}

// Traffic counts how one registry has answered requests: those that were answered, throttled (429),
// answered by a registry in trouble, and not answered.
type Traffic struct {
	Host                                        string
	Answered, Throttled, Overloaded, Unanswered int
	// Usual is how long an answer takes, and AtOnce how many requests of Most it takes at once.
	Usual        time.Duration
	AtOnce, Most int
}

//go:embed assets
var assets embed.FS

var (
	style, script = asset("style.css"), asset("script.js")
	// securityPolicy allows the page's own style and script: nothing is fetched, sent or framed.
	securityPolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", hashOf(style), hashOf(script))
	templates      = template.Must(template.New("").Funcs(template.FuncMap{
		"number": text.Number, "count": text.Count, "short": text.ShortDigests, "span": spanText, "utc": utc, "lines": nonEmptyLines, "kinds": kinds, "query": query,
	}).ParseFS(assets, "assets/*.html"))
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

// A layout holds the parts that all pages have.
type layout struct {
	Title string
	// Badge is the answer in a word or two, and Kind its colour and sign: one of those of kinds.
	Badge, Kind string
	// Sentence is the answer in one.
	Sentence string
	// Basis says when, of what and for whom.
	Basis    []basis
	Sections []section
	Context  Context
	// Asked is set if registries were.
	Asked bool

	Policy string
	Style  template.CSS
	Script template.JS
}

// A basis is one line of what an answer rests on.
type basis struct{ Name, Value string }

// A section is a part of a page.
type section struct {
	ID, Title, Lead string
	// Note stands behind the title: how many there are.
	Note string
	Body template.HTML
}

// A filter is a choice among values of the rows.
type filter struct {
	Name, Label string
	Values      []string
}

// write writes l, whose sections are rendered already.
func (l layout) write(w io.Writer) error {
	l.Policy = securityPolicy
	l.Style, l.Script = template.CSS(style), template.JS(script) //nolint:gosec // they are embedded
	l.Basis = append(l.Basis, l.Context.basis()...)
	return templates.ExecuteTemplate(w, "page.html", l)
}

func (c Context) basis() []basis {
	var all []basis
	for _, b := range []basis{{"Time", utc(&c.Time)}, {"Cluster", c.Cluster}, {"Asked by", c.Requester}, {"mirrorset-guard", c.Version}} {
		if b.Value != "" {
			all = append(all, basis{b.Name, text.Line(b.Value)})
		}
	}
	return all
}

// render returns what the template called name makes of data.
func render(name string, data any) (template.HTML, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil //nolint:gosec // a template has escaped it
}

// A part makes the body of a section; it is "" where there is nothing to say.
type part struct {
	section
	template string
	data     any
	empty    bool
}

// sections renders parts, without those that are empty. A section without room says so.
func sections(parts ...part) ([]section, error) {
	var all []section
	room := MaxBytes - spare - len(style) - len(script)
	for _, p := range parts {
		if p.empty {
			continue
		}
		room -= aroundSection + 2*len(p.Title) // which the contents have as well
		if p.template != "" {                  // else it is filled later
			body, err := render(p.template, p.data)
			if err != nil {
				return nil, err
			}
			if room -= len(body); room < 0 {
				room += len(body)
				body = tooLarge
			}
			p.Body = body
		}
		all = append(all, p.section)
	}
	return all, nil
}

// tooLarge stands for a section that would make the page larger than MaxBytes.
const tooLarge template.HTML = `<p class="left">This section is left out, as the page would become too large.</p>`

// spare is the room for the parts around the sections, and aroundSection that for the frame of each.
const spare, aroundSection = 60_000, 400

// rows renders one row after the other while there is room, and returns how many there was room for.
func rows[T any](name string, all []T, room int) (template.HTML, int, error) {
	var b bytes.Buffer
	for i := range all {
		before := b.Len()
		if err := templates.ExecuteTemplate(&b, name, &all[i]); err != nil {
			return "", 0, err
		}
		if b.Len() > room {
			b.Truncate(before)
			return template.HTML(b.String()), i, nil //nolint:gosec // a template has escaped it
		}
	}
	return template.HTML(b.String()), len(all), nil //nolint:gosec // as above
}

// kinds returns the sign for a kind, so that no colour is the only carrier of a meaning.
func kinds(kind string) string {
	switch kind {
	case "bad":
		return "✕"
	case "warn":
		return "!"
	case "good":
		return "✓"
	case "unknown":
		return "?"
	case "blocked":
		return "⊘"
	default:
		return "·"
	}
}

// query returns the filter by pairs of name and value, as a link has it.
func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

func utc(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

func nonEmptyLines(s string) []string {
	var all []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
