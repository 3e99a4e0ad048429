// Package chart makes the files of a release's Helm chart from those in manifests/chart, and what
// Artifact Hub shows of it from CHANGELOG.md.
package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mirrorset-guard/mirrorset-guard/tools/internal/objects"
)

// A Release is the version of the guard that a chart installs.
type Release struct {
	Version            string // "v0.1.0"
	Repository, Digest string // of the image
}

// Files returns the files of the chart by path. Root is the repository's top folder.
func Files(root string, r Release) (map[string][]byte, error) {
	files, err := read(filepath.Join(root, "manifests", "chart"))
	if err != nil {
		return nil, err
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	changes, err := Changes(string(changelog), r.Version)
	if err != nil {
		return nil, fmt.Errorf("CHANGELOG.md: %w", err)
	}
	if files["Chart.yaml"], err = describe(files["Chart.yaml"], r, changes); err != nil {
		return nil, fmt.Errorf("manifests/chart/Chart.yaml: %w", err)
	}
	if files["values.yaml"], err = setImage(files["values.yaml"], r); err != nil {
		return nil, fmt.Errorf("manifests/chart/values.yaml: %w", err)
	}
	return files, nil
}

// read returns the files below dir. Its links lead to the kustomize base and its overlays.
func read(dir string) (map[string][]byte, error) {
	files, tree := map[string][]byte{}, os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			return readLinked(files, name, filepath.Join(dir, filepath.FromSlash(name)))
		}
		files[name], err = fs.ReadFile(tree, name)
		return err
	})
	return files, err
}

// readLinked adds the objects of a folder, without what only kustomize reads and what a trial has left
// there.
func readLinked(files map[string][]byte, name, link string) error {
	folder, err := filepath.EvalSymlinks(link)
	if err != nil {
		return err
	}
	linked, err := read(folder)
	for file, content := range linked {
		if path.Ext(file) == ".yaml" && path.Base(file) != "kustomization.yaml" {
			files[path.Join(name, file)] = content
		}
	}
	return err
}

// A Change is an entry of the changelog, as Artifact Hub has it.
type Change struct {
	Kind        string `yaml:"kind"`
	Description string `yaml:"description"`
}

// kinds are Artifact Hub's words for those of the changelog.
var kinds = map[string]string{"FEATURE": "added", "CHANGE": "changed", "BUGFIX": "fixed"}

var (
	entry = regexp.MustCompile(`^- \[([A-Z]+)\] (.*)$`)
	link  = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// Changes returns what a changelog says of a version, or its Unreleased part if it does not know the
// version yet.
func Changes(changelog, version string) ([]Change, error) {
	section, found := sectionOf(changelog, version)
	if !found {
		section, found = sectionOf(changelog, "Unreleased")
	}
	if !found {
		return nil, fmt.Errorf("neither a section %q nor Unreleased", version)
	}
	var changes []Change
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if parts := entry.FindStringSubmatch(line); parts != nil {
			kind, known := kinds[parts[1]]
			if !known {
				return nil, fmt.Errorf("%q: not one of FEATURE, CHANGE, BUGFIX", parts[1])
			}
			changes = append(changes, Change{kind, parts[2]})
		} else if line != "" && !strings.HasPrefix(line, "#") && len(changes) > 0 {
			changes[len(changes)-1].Description += " " + line
		}
	}
	if len(changes) == 0 {
		return nil, errors.New("no entry is in the section")
	}
	for i := range changes {
		changes[i].Description = link.ReplaceAllString(changes[i].Description, "$1")
	}
	return changes, nil
}

func sectionOf(changelog, title string) (string, bool) {
	_, rest, found := strings.Cut("\n"+changelog, "\n## "+title+"\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	return section, found
}

// describe sets the versions of a Chart.yaml, and annotates it.
func describe(text []byte, r Release, changes []Change) ([]byte, error) {
	var chart objects.Object
	if err := yaml.Unmarshal(text, &chart); err != nil {
		return nil, err
	}
	annotations := chart.At("annotations")
	if annotations == nil {
		return nil, errors.New("it has no annotations")
	}
	listed, err := objects.Write(changes)
	if err != nil {
		return nil, err
	}
	images, err := objects.Write([]any{objects.Object{"name": "mirrorset-guard", "image": r.Repository + "@" + r.Digest}})
	if err != nil {
		return nil, err
	}
	number := strings.TrimPrefix(r.Version, "v")
	chart["version"], chart["appVersion"] = number, r.Version
	annotations["artifacthub.io/changes"], annotations["artifacthub.io/images"] = string(listed), string(images)
	annotations["artifacthub.io/prerelease"] = fmt.Sprint(strings.Contains(number, "-"))
	return objects.Write(chart)
}

// setImage sets the image of values, whose comments stay.
func setImage(text []byte, r Release) ([]byte, error) {
	values := string(text)
	for key, value := range map[string]string{"repository": r.Repository, "digest": r.Digest} {
		empty := "  " + key + ": \"\"\n"
		if strings.Count(values, empty) != 1 {
			return nil, fmt.Errorf("image.%s is not there to be set", key)
		}
		values = strings.Replace(values, empty, fmt.Sprintf("  %s: %q\n", key, value), 1)
	}
	return []byte(values), nil
}
