package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A section is a part of the navigation.
type section struct {
	Title string
	// Files are names or patterns of Markdown files. A name that does not exist yet keeps its place.
	Files []string
}

// navigation is what the manual consists of, in order. Pages of docs that are in none of these come
// last.
var navigation = []section{
	{"Overview", []string{"README.md", "CHANGELOG.md"}},
	{"Install", []string{"docs/install.md", "docs/disconnected.md", "docs/upgrade.md", "docs/tls.md"}},
	{"Configure", []string{"docs/configuration.md", "docs/serve.md"}},
	{"Use", []string{"docs/cli.md", "docs/sync.md", "docs/mirroring.md", "docs/release.md", "docs/pins.md", "docs/report.md", "docs/documents.md", "docs/diagnose.md", "docs/break-glass.md"}},
	{"GitOps and CI", []string{"docs/gitops/README.md", "docs/gitops/*.md"}},
	{"How it decides", []string{"docs/rules.md", "docs/forecast.md", "docs/decisions.md", "docs/truth.md"}},
	{"Operate", []string{"docs/monitoring.md", "docs/metrics.md", "docs/reliability-coverage.md"}},
	{"Security", []string{"docs/security.md", "docs/audit.md"}},
	{"When something is wrong", []string{"docs/emergency.md", "docs/runbooks/*.md"}},
	{"Develop", []string{"docs/design.md", "docs/dependencies.md", "CONTRIBUTING.md"}},
	{"Further pages", []string{"docs/*.md", "docs/*/*.md", "docs/*/*/*.md"}},
}

// filesOf returns the Markdown files of each section that has some, each file once.
func filesOf(root fs.FS) ([]section, error) {
	var sections []section
	seen := map[string]bool{}
	for _, s := range navigation {
		found := section{Title: s.Title}
		for _, pattern := range s.Files {
			files, err := fs.Glob(root, pattern)
			if err != nil {
				return nil, err
			}
			slices.Sort(files)
			for _, file := range files {
				if !seen[file] {
					seen[file] = true
					found.Files = append(found.Files, file)
				}
			}
		}
		if len(found.Files) > 0 {
			sections = append(sections, found)
		}
	}
	return sections, nil
}

// pageOf returns the page that is made of a Markdown file.
func pageOf(file string) string {
	switch name := strings.TrimPrefix(file, "docs/"); {
	case file == "README.md":
		return "index.html"
	case path.Base(name) == "README.md":
		return path.Join(path.Dir(name), "index.html")
	case name == file: // it is not in docs
		return strings.ToLower(strings.TrimSuffix(name, ".md")) + ".html"
	default:
		return strings.TrimSuffix(name, ".md") + ".html"
	}
}

// write writes a file of the site.
func write(out, name string, content []byte) error {
	file := filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // pages are for everybody
		return err
	}
	return os.WriteFile(file, content, 0o644) //nolint:gosec // pages are for everybody
}
