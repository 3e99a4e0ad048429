package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mirrorset-guard/mirrorset-guard/tools/internal/chart"
	"github.com/mirrorset-guard/mirrorset-guard/tools/internal/objects"
	"github.com/mirrorset-guard/mirrorset-guard/tools/internal/olm"
)

// packages are what installs an image: the chart's archive, and the images of the bundle and of the
// catalog that offers it.
type packages struct {
	chart   string                       // the file name of its archive
	folders map[string]map[string][]byte // the files of the chart, the bundle and the catalog
	images  []packageImage
}

// packageImage is an image of nothing but files, for every platform.
type packageImage struct {
	name  string // "bundle"
	index v1.ImageIndex
}

// newPackages makes them for the image with a digest.
func (j *job) newPackages(ctx context.Context, work string, digest v1.Hash) (*packages, error) {
	base, err := j.kustomize(ctx, "manifests/base")
	if err != nil {
		return nil, err
	}
	files, err := chart.Files(j.root, chart.Release{Version: j.version, Repository: j.image.Name(), Digest: digest.String()})
	if err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	all, err := objects.Read(base)
	if err != nil {
		return nil, fmt.Errorf("manifests/base: %w", err)
	}
	release := olm.Release{Version: j.version, Image: j.image.Digest(digest.String()).Name(), Created: j.created, Maintainer: j.maintainer}
	bundle, err := olm.NewBundle(j.root, all, release)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	p := &packages{
		chart:   program + "-" + strings.TrimPrefix(j.version, "v") + ".tgz",
		folders: map[string]map[string][]byte{"chart/" + program: files, "bundle": bundle.Files},
	}
	image, err := j.packageIndex(work, "bundle", bundle.Files, bundle.Labels)
	if err != nil {
		return nil, err
	}
	reference, err := j.beside("bundle", image)
	if err != nil {
		return nil, err
	}
	catalog, err := bundle.Catalog(release, reference)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	p.folders["catalog"] = map[string][]byte{olm.CatalogFile: catalog}
	offer, err := j.packageIndex(work, "catalog", p.folders["catalog"], olm.CatalogLabels())
	p.images = []packageImage{{"bundle", image}, {"catalog", offer}}
	return p, err
}

// kustomize returns the objects of a folder.
func (j *job) kustomize(ctx context.Context, folder string) ([]byte, error) {
	kubectl := exec.CommandContext(ctx, j.kubectl, "kustomize", filepath.Join(j.root, filepath.FromSlash(folder))) //nolint:gosec // the program that the command line names
	kubectl.Stderr = os.Stderr
	output, err := kubectl.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return output, nil
}

// packageIndex returns an image of files for every platform. No program is in it, but its pullers look
// for their own platform all the same.
func (j *job) packageIndex(work, name string, files map[string][]byte, labels map[string]string) (v1.ImageIndex, error) {
	dir := filepath.Join(work, "root", name)
	if err := writeFiles(dir, files); err != nil {
		return nil, err
	}
	var parts []v1.Image
	for _, platform := range j.platforms {
		part, err := newPart(os.DirFS(dir), platform, v1.Config{Labels: labels}, j.created)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return newIndex(parts, j.platforms), nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for path, content := range files {
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(path)), content); err != nil {
			return err
		}
	}
	return nil
}

// beside returns the reference of an image whose repository is beside that of the guard.
func (j *job) beside(name string, index v1.ImageIndex) (string, error) {
	digest, err := index.Digest()
	return j.image.Name() + "-" + name + "@" + digest.String(), err
}

// runPackages makes packages for an image that was pushed before.
func (j *job) runPackages(ctx context.Context, work string) error {
	digest, err := v1.NewHash(j.digest)
	if err != nil {
		return err
	}
	if err := j.lookFor(ctx, digest); err != nil {
		return fmt.Errorf("image: %q: %w", j.image.Digest(digest.String()), err)
	}
	p, err := j.newPackages(ctx, work, digest)
	if err != nil {
		return err
	}
	dir := filepath.Join(work, "packages")
	if err := j.writePackages(work, dir, p); err != nil {
		return err
	}
	for folder, files := range p.folders {
		if err := publishAll(filepath.Join(dir, filepath.FromSlash(folder)), files); err != nil {
			return err
		}
	}
	if err := replace(filepath.Join(j.out, "packages"), dir); err != nil {
		return err
	}
	return j.pushPackages(ctx, p)
}

// lookFor refuses an image that its registry does not have: its packages could not be installed.
func (j *job) lookFor(ctx context.Context, digest v1.Hash) error {
	_, err := remote.Head(j.image.Digest(digest.String()), remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return errors.New("the registry does not have this digest: push the image first (make image PUSH=REGISTRY/NAME:TAG)")
	}
	return err
}

// writePackages writes the published files of p: the chart's archive, and an OCI layout of each image.
func (j *job) writePackages(work, dir string, p *packages) error {
	staged := filepath.Join(work, "chart")
	if err := writeFiles(filepath.Join(staged, program), p.folders["chart/"+program]); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a build has no secrets
		return err
	}
	if err := j.writeTarGzipFile(filepath.Join(dir, p.chart), staged); err != nil {
		return err
	}
	for _, image := range p.images {
		layout := filepath.Join(work, image.name+"-layout")
		if err := writeLayout(layout, j.version, image.index, nil); err != nil {
			return err
		}
		if err := j.writeTarFile(filepath.Join(dir, j.fileName(image.name+".tar")), layout); err != nil {
			return err
		}
	}
	return nil
}

// publishAll writes files that everybody may read.
func publishAll(dir string, files map[string][]byte) error {
	for path, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // a build has no secrets
			return err
		}
		if err := publish(file, content); err != nil {
			return err
		}
	}
	return nil
}

// pushPackages pushes the images of p, if anything is to be pushed, and prints their references: the
// bundle first, which the catalog names.
func (j *job) pushPackages(ctx context.Context, p *packages) error {
	for _, image := range p.images {
		reference, err := j.beside(image.name, image.index)
		if err != nil {
			return err
		}
		if j.tag != nil {
			tag, err := name.NewTag(j.image.Name()+"-"+image.name+":"+j.tag.TagStr(), name.StrictValidation)
			if err != nil {
				return err
			}
			if err := j.pushAll(ctx, tag, image.index, nil); err != nil {
				return fmt.Errorf("push: %q: %w", tag.Name(), err)
			}
		}
		fmt.Println(reference)
	}
	return nil
}
