// Package mirroring puts what oc-mirror says of its last run beside what a review finds: an image that is
// not at the mirror, and that oc-mirror could not copy, has one cause and two reports.
//
// It reads the files mirroring_errors_* that oc-mirror v2 writes to the folder logs of its working
// directory (v2/internal/pkg/batch, saveErrors). What they say decides nothing.
package mirroring

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// Beside adds to record what oc-mirror could not copy, by the last file of errors beside one of files,
// which are those of the change; nothing if there is none.
func Beside(record *review.Record, files []string) error {
	for _, file := range files {
		path, err := lastErrors(file)
		if err != nil || path == "" {
			continue // there is nothing to be read, which is no fault of the change
		}
		failures, err := read(path)
		if err != nil {
			return err
		}
		failures.beside(record, filepath.Base(path))
		return nil
	}
	return nil
}

// lastErrors returns the last file of errors of a working directory that file, a file or folder, is in;
// "" if there is none. The names hold the time.
func lastErrors(file string) (string, error) {
	if file == "-" {
		return "", nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	folder := file
	if !info.IsDir() {
		folder = filepath.Dir(file)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	// The folder is cluster-resources, or one that was given and has it: other files that happen to lie beside a working directory have
	// nothing to do with its runs.
	dirs := []string{}
	if filepath.Base(folder) == resources {
		dirs = append(dirs, filepath.Dir(folder))
	}
	if info.IsDir() {
		dirs = append(dirs, folder, filepath.Join(folder, "working-dir"))
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, resources)); err != nil {
			continue
		}
		found, err := filepath.Glob(filepath.Join(dir, "logs", "mirroring_errors_*"))
		if err == nil && len(found) > 0 {
			return slices.Max(found), nil
		}
	}
	return "", nil
}

// resources is the folder of a working directory with what is to be applied.
const resources = "cluster-resources"

const (
	// maxLine is how much of a line is read: the answers of registries may be long.
	maxLine = 64 << 10
	// maxFailures bounds the failures that are read. Beyond, the run as a whole has failed.
	maxFailures = 10_000
)

// A failure is an image that oc-mirror could not copy.
type failure struct{ image, why string }

// failures are those of one run. cut is set if there were more.
type failures struct {
	all []failure
	cut bool
}

// failureLine matches a line of the file; a time and a level may come first.
var failureLine = regexp.MustCompile(`error mirroring image (\S+) (?:\(.*\) )?error: (.*)$`)

func read(path string) (failures, error) {
	file, err := os.Open(path)
	if err != nil {
		return failures{}, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	var f failures
	lines := bufio.NewReaderSize(file, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if m := failureLine.FindSubmatch([]byte(strings.TrimSpace(string(line)))); m != nil {
			if len(f.all) == maxFailures {
				f.cut = true
				return f, nil
			}
			f.all = append(f.all, failure{strings.TrimPrefix(string(m[1]), "docker://"), string(m[2])})
		}
		switch {
		case errors.Is(err, io.EOF):
			return f, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return failures{}, fmt.Errorf("%s: %w", path, err)
		}
	}
}

// beside adds f, of the file called name, to the findings that it explains, and a note on the rest.
func (f failures) beside(record *review.Record, name string) {
	if len(f.all) == 0 {
		return
	}
	of := map[string]failure{}
	for _, failed := range f.all {
		for _, key := range keysOf(failed.image) {
			of[key] = failed
		}
	}
	explained := map[failure]bool{}
	record.Verdict.Findings = slices.Clone(record.Verdict.Findings)
	for i := range record.Verdict.Findings {
		finding := &record.Verdict.Findings[i]
		for _, key := range keysOf(finding.Image.Ref) {
			if failed, ok := of[key]; ok {
				explained[failed] = true
				finding.Detail = append(slices.Clone(finding.Detail), fmt.Sprintf("oc-mirror could not copy it: %s (%s)", text.Cut(text.Line(failed.why), maxWhy), text.Line(name)))
				break
			}
		}
	}
	record.Notes = append(record.Notes, f.note(name, explained))
}

// maxWhy is how much of oc-mirror's reason is repeated, in runes.
const maxWhy = 300

// note says how many images oc-mirror could not copy, and names those that no finding is about.
func (f failures) note(name string, explained map[failure]bool) string {
	var others []string
	for _, failed := range f.all {
		if !explained[failed] {
			others = append(others, text.ShortDigest(text.Line(failed.image)))
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	more := ""
	if f.cut {
		more = " at least"
	}
	note := fmt.Sprintf("oc-mirror could not copy%s %s by %s", more, text.Count(len(f.all), "image"), text.Line(name))
	if len(others) > 0 {
		note += "; no finding is about " + text.Names(others, maxOthers)
	}
	return note
}

// maxOthers is how many images a note names.
const maxOthers = 5

// keysOf returns by what an image of a cluster and one of oc-mirror, which may have come from its cache,
// are the same: the reference, or the digest.
func keysOf(image string) []string {
	repository, version, ok := mirrors.Canonical(image)
	if !ok {
		return nil
	}
	keys := []string{repository + version}
	if digest, ok := strings.CutPrefix(version, "@"); ok {
		keys = append(keys, digest)
	}
	return keys
}
