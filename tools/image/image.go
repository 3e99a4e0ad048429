package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is numeric: runAsNonRoot cannot be verified by a name.
const user = "65532:65532"

// labels returns the labels that Red Hat's certification requires of an image. The Dockerfile has
// the same.
func labels(version string) map[string]string {
	return map[string]string{
		"name":        program,
		"vendor":      "The mirrorset-guard authors",
		"maintainer":  "The mirrorset-guard authors",
		"version":     version,
		"release":     "1",
		"summary":     "Refuses changes of OpenShift mirror sets that would break image pulls",
		"description": "A validating admission webhook that knows every image an OpenShift cluster may have to pull. It refuses changes of mirror sets after which one of them could not be pulled.",
	}
}

// guardConfig is how the guard's image is run.
func guardConfig(version string) v1.Config {
	return v1.Config{User: user, Entrypoint: []string{"/" + program}, Labels: labels(version)}
}

// newPart returns an image for one platform, with the files of root.
func newPart(root fs.FS, platform v1.Platform, config v1.Config, created time.Time) (v1.Image, error) {
	layer, err := newLayer(root, created)
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(emptyImage(), mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "make image"},
	})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = platform.OS, platform.Architecture, v1.Time{Time: created}
	file.Config = config
	return mutate.ConfigFile(image, file)
}

// emptyImage returns an image of OCI's types without layers.
func emptyImage() v1.Image {
	return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
}

// newIndex returns the image for several platforms.
func newIndex(parts []v1.Image, platforms []v1.Platform) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for i, part := range parts {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: part, Descriptor: v1.Descriptor{Platform: &platforms[i]}})
	}
	return index
}

// newLayer returns the layer that holds the files of root.
func newLayer(root fs.FS, created time.Time) (v1.Layer, error) {
	open := func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(writeTar(writer, root, created)) }()
		return reader, nil
	}
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// writeTar writes the files of root in a fixed order, owned by root and as old as created. Their mode is
// 755 if their owner on disk may execute them, else 644.
func writeTar(w io.Writer, root fs.FS, created time.Time) error {
	archive := tar.NewWriter(w)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header := &tar.Header{Name: path, Mode: 0o644, ModTime: created, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if info.Mode()&0o100 != 0 {
			header.Mode = 0o755
		}
		if entry.IsDir() {
			header.Name, header.Typeflag = path+"/", tar.TypeDir
			return archive.WriteHeader(header)
		}
		header.Size = info.Size()
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		file, err := root.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(archive, file)
		return errors.Join(err, file.Close())
	})
	return errors.Join(err, archive.Close())
}
