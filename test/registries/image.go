package registries

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image makes a small image whose digest depends on its name only, so that a
// story can refer to it before it is pushed.
// It is for linux/amd64.
func Image(name string) (v1.Image, error) { return ImageFor(name, "amd64") }

// ImageFor is Image for an architecture of Linux.
func ImageFor(name, arch string) (v1.Image, error) {
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte("layer of "+name), types.DockerLayer))
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Config.Labels = map[string]string{"name": name}
	return mutate.ConfigFile(img, file)
}

// Index makes a small image for two architectures.
func Index(name string) (v1.ImageIndex, error) { return IndexOf(name, "linux/amd64", "linux/arm64") }

// IndexOf makes a small image for platforms ("linux/arm64/v8"). "any" stands for a part
// that is listed without a platform, and is for arm64 by its config.
func IndexOf(name string, platforms ...string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		var p *v1.Platform
		arch := "arm64"
		if fields := strings.Split(platform, "/"); len(fields) > 1 {
			p = &v1.Platform{OS: fields[0], Architecture: fields[1], Variant: strings.Join(fields[2:], "")}
			arch = p.Architecture
		}
		img, err := ImageFor(name+" "+strings.TrimPrefix(platform, "linux/"), arch)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: p}})
	}
	return index, nil
}
