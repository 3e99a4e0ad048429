package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// run builds everything in a folder beside the results, and puts these in their places when all are
// there.
func (j *job) run(ctx context.Context) error {
	if err := os.MkdirAll(j.out, 0o755); err != nil { //nolint:gosec // a build has no secrets
		return err
	}
	work, err := os.MkdirTemp(j.out, ".work-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // git ignores the rest, and make clean removes it
	if j.packages {
		return j.runPackages(ctx, work)
	}
	index, sboms, err := j.buildImage(ctx, work)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if j.digest != "" && j.digest != digest.String() {
		return fmt.Errorf("image: %q: what was built is %s", j.image.Name()+"@"+j.digest, digest)
	}
	if err := writeLayout(filepath.Join(work, "image"), j.version, index, sboms); err != nil {
		return err
	}
	var made *packages // nil: only a release has any
	if j.release {
		if made, err = j.writeRelease(ctx, work, digest); err != nil {
			return err
		}
	}
	for _, result := range []string{"image", "release"} {
		if err := replace(filepath.Join(j.out, result), filepath.Join(work, result)); err != nil {
			return err
		}
	}
	if j.tag == nil {
		fmt.Println(digest)
		return nil
	}
	if err := j.pushAll(ctx, *j.tag, index, sboms); err != nil {
		return fmt.Errorf("push: %q: %w", j.tag.Name(), err)
	}
	fmt.Println(j.tag.Context().Digest(digest.String()))
	if made == nil {
		return nil
	}
	return j.pushPackages(ctx, made)
}

// replace moves made to where old is. There may be no made.
func replace(old, made string) error {
	if _, err := os.Stat(made); os.IsNotExist(err) {
		return nil
	}
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	return os.Rename(made, old)
}

// buildImage returns the image for all platforms, and an SBOM for each.
func (j *job) buildImage(ctx context.Context, work string) (v1.ImageIndex, []v1.Image, error) {
	var parts []v1.Image
	var sboms []v1.Image
	for _, platform := range j.platforms {
		dir, err := j.stage(ctx, work, platform)
		if err != nil {
			return nil, nil, err
		}
		part, err := newPart(os.DirFS(dir), platform, guardConfig(j.version), j.created)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part)
		bom, err := readSBOM(filepath.Join(dir, program), j.version, j.created)
		if err != nil {
			return nil, nil, err
		}
		attached, err := attachSBOM(part, bom)
		if err != nil {
			return nil, nil, err
		}
		sboms = append(sboms, attached)
	}
	return newIndex(parts, j.platforms), sboms, nil
}

// stage writes the contents of the image for a platform, and returns the folder that is its root.
func (j *job) stage(ctx context.Context, work string, platform v1.Platform) (string, error) {
	dir := filepath.Join(work, "root", platform.Architecture)
	if err := j.build(ctx, platform, filepath.Join(dir, program)); err != nil {
		return "", err
	}
	license, err := os.ReadFile(filepath.Join(j.root, "LICENSE"))
	if err != nil {
		return "", err
	}
	for file, content := range map[string][]byte{"licenses/LICENSE": license, "etc/ssl/certs/ca-certificates.crt": j.cas} {
		if err := writeFile(filepath.Join(dir, file), content); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// writeFile writes a file and the folders above it. Their modes do not matter: archives have their own.
func writeFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// writeLayout writes an OCI layout of the image and of its attached images.
func writeLayout(dir, version string, index v1.ImageIndex, attached []v1.Image) error {
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})); err != nil {
		return err
	}
	for _, image := range attached {
		if err := l.AppendImage(image); err != nil {
			return err
		}
	}
	return nil
}
