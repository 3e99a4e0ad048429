package manual

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const top = "../.."

func pages(t *testing.T) []Page {
	t.Helper()
	pages, err := Pages(top)
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 40 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	return pages
}

// TestLinks: what a link leads to within the repository exists, with its anchor.
func TestLinks(t *testing.T) {
	pages := pages(t)
	anchors := map[string][]string{}
	for _, p := range pages {
		anchors[p.Path] = p.Anchors
	}
	links := 0
	for _, p := range pages {
		for _, link := range p.Links {
			links++
			if problem := problemOf(p, link.Text, anchors); problem != "" {
				t.Errorf("%s:%d: %s: %s", p.Path, link.Line, link.Text, problem)
			}
		}
	}
	if links < 150 {
		t.Errorf("only %d links were found", links)
	}
}

func problemOf(p Page, link string, anchors map[string][]string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if u.IsAbs() {
		if u.Scheme != "https" || u.Host == "" {
			return "links to other sites are https"
		}
		return ""
	}
	target := p.Path
	if u.Path != "" {
		target = path.Join(path.Dir(p.Path), u.Path)
	}
	if _, err := os.Stat(filepath.Join(top, filepath.FromSlash(target))); err != nil || strings.HasPrefix(target, "..") {
		return "there is no such file"
	}
	if u.Fragment != "" && !slices.Contains(anchors[target], u.Fragment) {
		return "there is no heading that has this anchor"
	}
	return ""
}

// inRepository is how the name of a file of the repository begins.
var inRepository = regexp.MustCompile(`^(\.ci|api|certs|cmd|docs|examples|internal|inventory|manifests|policy|review|test|tools|webhook)/\S*$`)

// inExample are names that look like those of files here, in files that are.
var inExample = map[string]string{
	"policy/v1": "an API group",
}

// TestFiles: files that the text names exist. "<name>" and "*" stand for any.
func TestFiles(t *testing.T) {
	names := 0
	for _, p := range pages(t) {
		if p.Path == "CHANGELOG.md" { // it tells of what was
			continue
		}
		for _, span := range p.Spans {
			if !inRepository.MatchString(span.Text) || inExample[span.Text] != "" {
				continue
			}
			names++
			pattern := regexp.MustCompile(`<\w+>`).ReplaceAllString(strings.TrimSuffix(strings.TrimSuffix(span.Text, "/"), "/..."), "*")
			pattern, _, _ = strings.Cut(pattern, "#")
			if !existsBelow(top, pattern) && !existsBelow(path.Join(top, path.Dir(p.Path)), pattern) {
				t.Errorf("%s:%d: there is no %s", p.Path, span.Line, span.Text)
			}
		}
	}
	if names < 150 {
		t.Errorf("only %d names of files were found", names)
	}
}

func existsBelow(folder, pattern string) bool {
	found, err := filepath.Glob(filepath.Join(folder, filepath.FromSlash(pattern)))
	return err == nil && len(found) > 0
}
