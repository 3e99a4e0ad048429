package main

import (
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// downloads lists the platforms on which people run the command.
var downloads = []v1.Platform{
	{OS: "linux", Architecture: "amd64"},
	{OS: "linux", Architecture: "arm64"},
	{OS: "darwin", Architecture: "amd64"},
	{OS: "darwin", Architecture: "arm64"},
	{OS: "windows", Architecture: "amd64"},
	{OS: "windows", Architecture: "arm64"},
}

// checksums is the file that lists the others, as sha256sum -c reads it.
const checksums = "SHA256SUMS"

// writeRelease writes archives of the binary with an SBOM each, krew's manifest of them, the image's layout, install.yaml, the
// chart, the bundle and the catalog, and checksums of all these.
func (j *job) writeRelease(ctx context.Context, work string, digest v1.Hash) (*packages, error) {
	dir := filepath.Join(work, "release")
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // a build has no secrets
		return nil, err
	}
	for _, platform := range downloads {
		if err := j.writeArchive(ctx, work, dir, platform); err != nil {
			return nil, err
		}
	}
	if err := j.writeKrew(dir); err != nil {
		return nil, err
	}
	if err := j.writeTarFile(filepath.Join(dir, j.fileName("image.tar")), filepath.Join(work, "image")); err != nil {
		return nil, err
	}
	if err := j.writeInstall(ctx, work, dir, digest); err != nil {
		return nil, err
	}
	made, err := j.newPackages(ctx, work, digest)
	if err != nil {
		return nil, err
	}
	if err := j.writePackages(work, dir, made); err != nil {
		return nil, err
	}
	if err := j.writeMirroring(work, dir); err != nil {
		return nil, err
	}
	sums, err := sumAll(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	return made, publish(filepath.Join(dir, checksums), []byte(sums))
}

// writeTarFile writes an archive of a folder.
func (j *job) writeTarFile(file, folder string) error {
	return create(file, func(w io.Writer) error { return writeTar(w, os.DirFS(folder), j.created) })
}

// writeTarGzipFile is writeTarFile, compressed.
func (j *job) writeTarGzipFile(file, folder string) error {
	return create(file, func(w io.Writer) error { return writeTarGzip(w, os.DirFS(folder), j.created) })
}

// fileName returns the name of a file of the release.
func (j *job) fileName(rest string) string { return program + "_" + j.version + "_" + rest }

// writeArchive writes the archive for a platform, and its SBOM.
func (j *job) writeArchive(ctx context.Context, work, dir string, platform v1.Platform) error {
	name := j.fileName(platform.OS + "_" + platform.Architecture)
	archive, binary := j.archive(platform)
	files := filepath.Join(work, name)
	if err := j.build(ctx, platform, filepath.Join(files, binary)); err != nil {
		return err
	}
	bom, err := readSBOM(filepath.Join(files, binary), j.version, j.created)
	if err != nil {
		return err
	}
	if err := publish(filepath.Join(dir, name+".cdx.json"), bom); err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(j.root, "LICENSE"))
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(files, "LICENSE"), license); err != nil {
		return err
	}
	write := writeTarGzip
	if platform.OS == "windows" {
		write = writeZip
	}
	return create(filepath.Join(dir, archive), func(w io.Writer) error { return write(w, os.DirFS(files), j.created) })
}

func writeTarGzip(w io.Writer, files fs.FS, created time.Time) error {
	compressed := gzip.NewWriter(w)
	err := writeTar(compressed, files, created)
	return errors.Join(err, compressed.Close())
}

// writeZip is writeTarGzip for Windows. The files are in one folder.
func writeZip(w io.Writer, files fs.FS, created time.Time) error {
	archive := zip.NewWriter(w)
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return err
		}
		file, err := archive.CreateHeader(&zip.FileHeader{Name: entry.Name(), Method: zip.Deflate, Modified: created})
		if err != nil {
			return err
		}
		if _, err := file.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeInstall writes the objects of manifests/base, with the image by digest.
func (j *job) writeInstall(ctx context.Context, work, dir string, digest v1.Hash) error {
	folder := filepath.Join(work, "install")
	base, err := filepath.Rel(folder, filepath.Join(j.root, "manifests", "base"))
	if err != nil {
		return err
	}
	text := fmt.Sprintf("resources: [%q]\nimages: [{name: %s, newName: %q, digest: %q}]\n", filepath.ToSlash(base), program, j.image.Name(), digest)
	if err := writeFile(filepath.Join(folder, "kustomization.yaml"), []byte(text)); err != nil {
		return err
	}
	kubectl := exec.CommandContext(ctx, j.kubectl, "kustomize", folder) //nolint:gosec // the program that the command line names
	kubectl.Stderr = os.Stderr
	objects, err := kubectl.Output()
	if err != nil {
		return fmt.Errorf("install.yaml: %w", err)
	}
	if !strings.Contains(string(objects), j.image.Digest(digest.String()).Name()) {
		return errors.New("install.yaml: manifests/base does not run the image that is replaced")
	}
	return publish(filepath.Join(dir, "install.yaml"), objects)
}

// sumAll returns a line with the checksum of each file.
func sumAll(files fs.FS) (string, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, entry := range entries {
		content, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return lines.String(), nil
}

// create writes a file that everybody may read.
func create(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // a build has no secrets
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func publish(path string, content []byte) error {
	return create(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}
