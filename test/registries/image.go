package registries

import (
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image makes a small image whose digest depends on its name only, so that a
// story can speak of it before it is pushed.
// It is for linux/amd64.
func Image(name string) (v1.Image, error) { return imageFor(name, "amd64") }

func imageFor(name, arch string) (v1.Image, error) {
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
func Index(name string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := imageFor(name+" "+arch, arch)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}
