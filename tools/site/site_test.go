package main

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dop251/goja"
	"golang.org/x/net/html"
)

const repository = "../.."

// built builds the manual of this repository.
func built(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "manual")
	pages, err := build(repository, out)
	if err != nil {
		t.Fatal(err)
	}
	if pages < 39 {
		t.Errorf("only %d pages", pages)
	}
	return out
}

// TestTwoBuildsAreTheSame, also where one replaces another.
func TestTwoBuildsAreTheSame(t *testing.T) {
	a, b := built(t), built(t)
	if err := write(b, "stale.html", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := build(repository, b); err != nil {
		t.Fatal(err)
	}
	files := contents(t, a)
	others := contents(t, b)
	for name, content := range files {
		if others[name] != content {
			t.Errorf("%s is not the same", name)
		}
	}
	if len(files) != len(others) {
		t.Errorf("%d files and %d", len(files), len(others))
	}
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, name))
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A parsed page has what its elements say.
type parsed struct {
	ids, links, loads []string
	h1                int
}

func parse(t *testing.T, text string) parsed {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var p parsed
	for n := range root.Descendants() {
		if n.Data == "h1" && n.Type == html.ElementNode {
			p.h1++
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				p.ids = append(p.ids, a.Val)
			case a.Key == "href" && n.Data == "a":
				p.links = append(p.links, a.Val)
			case slices.Contains([]string{"src", "href", "srcset", "action", "data", "poster"}, a.Key):
				p.loads = append(p.loads, a.Val)
			case a.Key == "style" || strings.HasPrefix(a.Key, "on"):
				p.loads = append(p.loads, "inline: "+a.Val)
			}
		}
	}
	return p
}

// TestPages: links lead to pages and headings that exist, nothing is loaded but what is in the site, and
// each page reaches all others.
func TestPages(t *testing.T) {
	files := contents(t, built(t))
	pages := map[string]parsed{}
	for name, content := range files {
		if strings.HasSuffix(name, ".html") {
			pages[name] = parse(t, content)
		}
	}
	for name, p := range pages {
		if p.h1 != 1 {
			t.Errorf("%s has %d first headings", name, p.h1)
		}
		reached := map[string]bool{}
		for _, load := range p.loads {
			if u, err := url.Parse(load); err != nil || u.IsAbs() || u.Host != "" || files[path.Join(path.Dir(name), u.Path)] == "" {
				t.Errorf("%s loads %s", name, load)
			}
		}
		for _, link := range p.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.IsAbs() {
				continue
			}
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			reached[target] = true
			to, ok := pages[target]
			if !ok || u.Fragment != "" && !slices.Contains(to.ids, u.Fragment) {
				t.Errorf("%s links to %s, which does not exist", name, link)
			}
		}
		for other := range pages {
			if !reached[other] {
				t.Errorf("%s has no link to %s", name, other)
			}
		}
	}
	for _, name := range []string{"style.css", "search.js"} {
		if strings.Contains(files[name], "http") || strings.Contains(files[name], "@import") || strings.Contains(files[name], "url(") {
			t.Errorf("%s asks for something else", name)
		}
	}
}

// TestEveryPageOfDocsIsInTheManual: each Markdown file below docs becomes a page.
func TestEveryPageOfDocsIsInTheManual(t *testing.T) {
	files := contents(t, built(t))
	markdown := 0
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".md") {
			return err
		}
		markdown++
		relative, err := filepath.Rel(repository, name)
		if page := pageOf(filepath.ToSlash(relative)); files[page] == "" {
			t.Errorf("there is no %s", page)
		}
		return err
	})
	if err != nil || markdown < 36 {
		t.Errorf("%d files: %v", markdown, err)
	}
}

// TestSearch runs the search of the pages on their index.
func TestSearch(t *testing.T) {
	files := contents(t, built(t))
	vm := goja.New()
	script := "var window = {}, module = {};" + files["search-index.js"] + files["search.js"]
	if _, err := vm.RunString(script); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"SignatureMissing":   "rules.html#signaturemissing",
		"signaturemissing":   "rules.html#signaturemissing",
		"exit codes":         "cli.html#exit-codes",
		"MirrorsetGuardDown": "runbooks/MirrorsetGuardDown.html",
		"break-glass":        "break-glass.html",
		"":                   "",
		"quagga zymurgy":     "",
		"<script>":           "",
	} {
		if err := vm.Set("query", query); err != nil {
			t.Fatal(err)
		}
		got, err := vm.RunString("module.exports.parts(window.manual, query).map((p) => p.u).join(' ') + ''")
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(got.String(), " "); first != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
}

// TestBadInput: a build that fails says why, and leaves what is there.
func TestBadInput(t *testing.T) {
	for _, tt := range []struct{ name, page, want string }{
		{"a link that leads nowhere", "# X\n[a](none.md)", "there is no docs/none.md"},
		{"an anchor that leads nowhere", "# X\n[a](#none)", `no heading "none"`},
		{"a link out of the repository", "# X\n[a](../../x)", "there is no ../x"},
		{"HTML", "# X\n<b>a</b>", "the manual has no HTML"},
		{"a block of HTML", "# X\n\n<script>\nx\n</script>\n", "the manual has no HTML"},
		{"HTML after a comment", "# X\n\n<!-- a --><img src=x>\n", "the manual has no HTML"},
		{"a picture", "# X\n![a](x.png)", "there is no picture docs/x.png"},
		{"no heading", "text", "has no heading"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := write(root, "docs/x.md", []byte(tt.page)); err != nil {
				t.Fatal(err)
			}
			if _, err := build(root, filepath.Join(t.TempDir(), "out")); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := build(t.TempDir(), filepath.Join(t.TempDir(), "out")); err == nil || !strings.Contains(err.Error(), "no Markdown") {
		t.Errorf("%v", err)
	}
	precious := t.TempDir()
	if err := write(precious, "thesis.txt", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := build(repository, precious); err == nil || !strings.Contains(err.Error(), "left as it is") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(precious, "thesis.txt")); err != nil {
		t.Error(err)
	}
}
