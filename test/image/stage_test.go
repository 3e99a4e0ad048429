package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/mirrorset-guard/mirrorset-guard/test/repo"
)

// builder is the program that `make image` runs, for the source in a folder.
type builder struct {
	program, source string
}

func newBuilder(t *testing.T) builder {
	t.Helper()
	b := builder{program: filepath.Join(t.TempDir(), "image"), source: repo.Root()}
	build := exec.Command("go", "build", "-o", b.program, "./image")
	build.Dir = filepath.Join(b.source, "tools")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return b
}

// epoch is when all files were made, as seconds since 1970.
const epoch = 1_700_000_000

// run returns what the builder prints, or what it has to say of its failure.
func (b builder) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), b.program, args...)
	cmd.Dir = filepath.Join(b.source, "tools")
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var complaint strings.Builder
		for line := range strings.Lines(stderr.String()) {
			if !strings.HasPrefix(line, "building ") {
				complaint.WriteString(line)
			}
		}
		return "", errors.New(strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// must is run where it is to succeed.
func (b builder) must(t *testing.T, args ...string) string {
	t.Helper()
	output, err := b.run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// copied returns the builder for a copy of the source.
func (b builder) copied(t *testing.T) builder {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = b.source
	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		if target, err := os.Readlink(filepath.Join(b.source, file)); err == nil {
			link(t, target, filepath.Join(dir, file))
			continue
		}
		content, err := os.ReadFile(filepath.Join(b.source, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // taken away, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, file), string(content))
	}
	return builder{b.program, dir}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// toy returns the builder for another program of the same name, which is compiled in a second.
func (b builder) toy(t *testing.T) builder {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string]string{
		"go.mod":                       "module example.com/toy\n\ngo 1.26\n",
		"cmd/mirrorset-guard/main.go":  "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
		"LICENSE":                      "Do as you like.\n",
		"tools/the-builder-works-here": "",
	} {
		writeFile(t, filepath.Join(dir, file), content)
	}
	return builder{b.program, dir}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// file is what an image holds under a path.
type file struct {
	*tar.Header
	content []byte
}

// files returns what an image holds, by path.
func files(t *testing.T, image v1.Image) map[string]file {
	t.Helper()
	reader := mutate.Extract(image)
	defer reader.Close()
	all := map[string]file{}
	archive := tar.NewReader(reader)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		all["/"+strings.TrimSuffix(header.Name, "/")] = file{header, content}
	}
}

// unpack writes what an image holds to a folder that anybody may enter, and returns it.
func unpack(t *testing.T, image v1.Image) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	for path, f := range files(t, image) {
		to := filepath.Join(root, path)
		if f.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(to, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		writeFile(t, to, string(f.content))
		if err := os.Chmod(to, f.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// addReleased puts what a release takes beside the program into the source of b.
func (b *builder) addReleased(t *testing.T) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(b.source, "manifests"), os.DirFS(filepath.Join(repo.Root(), "manifests"))); err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile(filepath.Join(repo.Root(), "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(b.source, "CHANGELOG.md"), string(changelog))
}
