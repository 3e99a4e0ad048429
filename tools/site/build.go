package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// forge is the address of files outside of the manual.
const forge = "https://github.com/mirrorset-guard/mirrorset-guard/blob/main/"

//go:embed page.html style.css search.js
var theme embed.FS

var layout = template.Must(template.ParseFS(theme, "page.html"))

// A site is the manual while it is built.
type site struct {
	root, out string
	sections  []section
	pages     map[string]*page // by their files
}

// build makes the manual from the repository at root, and returns how many pages it has. It replaces
// out, if that is a manual, or empty.
func build(root, out string) (int, error) {
	s := &site{root: root, out: out, pages: map[string]*page{}}
	if err := s.read(); err != nil {
		return 0, err
	}
	if err := s.empty(); err != nil {
		return 0, err
	}
	for _, section := range s.sections {
		for _, file := range section.Files {
			if err := s.write(s.pages[file]); err != nil {
				return 0, err
			}
		}
	}
	for _, name := range []string{"style.css", "search.js"} {
		content, err := theme.ReadFile(name)
		if err != nil {
			return 0, err
		}
		if err := write(out, name, content); err != nil {
			return 0, err
		}
	}
	return len(s.pages), s.writeIndex()
}

func (s *site) read() error {
	var err error
	if s.sections, err = filesOf(os.DirFS(s.root)); err != nil {
		return err
	}
	for _, section := range s.sections {
		for _, file := range section.Files {
			source, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(file)))
			if err != nil {
				return err
			}
			if s.pages[file], err = newPage(file, source); err != nil {
				return err
			}
		}
	}
	if len(s.pages) == 0 {
		return fmt.Errorf("%s has no Markdown: it is not the top folder of the repository", s.root)
	}
	return nil
}

// empty removes what an earlier build made, and nothing else.
func (s *site) empty() error {
	entries, err := os.ReadDir(s.out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.out, "search-index.js")); err != nil {
		return fmt.Errorf("%s has files, and is no manual: it is left as it is", s.out)
	}
	return os.RemoveAll(s.out)
}

// A view has the values that the layout shows.
type view struct {
	Title    string
	Top      string // the way to the top of the site
	Content  template.HTML
	Parts    []part
	Sections []navigated
}

type navigated struct {
	Title string
	Open  bool
	Pages []entry
}

type entry struct {
	Title, Link string
	Here        bool
}

func (s *site) write(p *page) error {
	content, err := p.render(
		func(link string) (string, error) { return s.resolve(p, link) },
		func(link string) (string, error) { return s.picture(p, link) },
	)
	if err != nil {
		return err
	}
	v := view{Title: p.Title, Top: strings.Repeat("../", strings.Count(p.Name, "/")), Content: template.HTML(content)} //nolint:gosec // it is made of our own Markdown, which has no HTML
	for _, part := range p.Parts {
		if part.Level == 2 {
			v.Parts = append(v.Parts, part)
		}
	}
	for _, section := range s.sections {
		n := navigated{Title: section.Title}
		for _, file := range section.Files {
			n.Pages = append(n.Pages, entry{s.pages[file].Title, v.Top + s.pages[file].Name, file == p.File})
			n.Open = n.Open || file == p.File
		}
		v.Sections = append(v.Sections, n)
	}
	var b bytes.Buffer
	if err := layout.Execute(&b, v); err != nil {
		return fmt.Errorf("%s: %w", p.File, err)
	}
	return write(s.out, p.Name, b.Bytes())
}

// resolve returns where a link of the Markdown leads in the site: to another page, or to the forge.
func (s *site) resolve(p *page, link string) (string, error) {
	u, err := url.Parse(link)
	if err != nil {
		return "", err
	}
	if u.IsAbs() {
		return link, nil
	}
	file := p.File
	if u.Path != "" {
		file = path.Join(path.Dir(p.File), u.Path)
	}
	if _, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(file))); err != nil || strings.HasPrefix(file, "..") {
		return "", fmt.Errorf("there is no %s", file)
	}
	to := s.pages[file]
	if to == nil {
		return forge + file + fragment(u), nil
	}
	if u.Fragment != "" && !slices.ContainsFunc(to.Parts, func(p part) bool { return p.Anchor == u.Fragment }) {
		return "", fmt.Errorf("%s has no heading %q", file, u.Fragment)
	}
	if to == p && u.Fragment != "" {
		return fragment(u), nil
	}
	return strings.Repeat("../", strings.Count(p.Name, "/")) + to.Name + fragment(u), nil
}

// picture puts a picture of the repository into the site, and returns where it is there.
func (s *site) picture(p *page, link string) (string, error) {
	file := path.Join(path.Dir(p.File), link)
	content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(file)))
	if err != nil || strings.HasPrefix(file, "..") || path.Ext(file) != ".png" {
		return "", fmt.Errorf("there is no picture %s", file)
	}
	name := path.Join("images", path.Base(file))
	return strings.Repeat("../", strings.Count(p.Name, "/")) + name, write(s.out, name, content)
}

func fragment(u *url.URL) string {
	if u.Fragment == "" {
		return ""
	}
	return "#" + u.EscapedFragment()
}

// A found has the words by which the search finds one part of a page.
type found struct {
	Link    string `json:"u"`
	Page    string `json:"p"`
	Heading string `json:"h"`
	Text    string `json:"t"`
}

// writeIndex writes the search index as a script, as pages that were opened from a disk may not fetch
// anything.
func (s *site) writeIndex() error {
	var index []found
	for _, section := range s.sections {
		for _, file := range section.Files {
			p := s.pages[file]
			for _, part := range p.Parts {
				link := p.Name
				if part.Anchor != "" && part.Level > 1 {
					link += "#" + part.Anchor
				}
				index = append(index, found{link, p.Title, part.Heading, part.Text})
			}
		}
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return write(s.out, "search-index.js", slices.Concat([]byte("window.manual = "), data, []byte(";\n")))
}
