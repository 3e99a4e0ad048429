package release

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	imagename "github.com/google/go-containerregistry/pkg/name"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/policy/signing"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	"github.com/mirrorset-guard/mirrorset-guard/test/signer"
)

// push makes the images of the payload, then the release image, all signed.
func (s *Stage) push(t testing.TB, n int) {
	t.Helper()
	stream := map[string]any{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": map[string]string{"name": Version}}
	var tags []any
	manifests := map[string]string{}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		name := imageName(i)
		digest := s.pushImage(t, &group, i, name)
		ref := s.Images + "@" + digest
		tags = append(tags, map[string]any{"name": name, "from": map[string]string{"kind": "DockerImage", "name": ref}})
		switch path := fmt.Sprintf("release-manifests/0000_%02d_%s.yaml", 10+i%80, name); {
		case i%6 == 0:
			manifests[path] = "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {nodeSelector: {node-role.kubernetes.io/master: \"\"}, containers: [{name: a, image: \"" + ref + "\"}]}}}\n"
		case i%3 == 0:
			manifests[path] = "apiVersion: apps/v1\nkind: Deployment\nspec: {image: \"" + ref + "\"}\n"
		}
	}
	stream["spec"] = map[string]any{"tags": tags}
	references, err := json.Marshal(stream)
	if err != nil {
		t.Fatal(err)
	}
	manifests["release-manifests/image-references"] = string(references)
	manifests["release-manifests/release-metadata"] = `{"kind":"cincinnati-metadata-v0","version":"` + Version + `","previous":["4.20.9"]}`
	manifests["release-manifests/0000_10_clusterimagepolicy.yaml"] = s.newPolicy()
	s.payload = manifests
	s.Remake(t, Archive(t, map[string]string{"usr/bin/cluster-version-operator": "binary"}))
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Remake makes the release image anew, upon a layer that need not be an archive, with texts of its payload replaced. It is pushed, and signed in both
// ways. Its parts are those of Parts.
func (s *Stage) Remake(t testing.TB, lowest []byte, oldnew ...string) {
	t.Helper()
	files := map[string]string{}
	for name, text := range s.payload {
		files[name] = strings.NewReplacer(oldnew...).Replace(text)
	}
	image := Image(t, nil, lowest, Archive(t, files))
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.Digest = hash.String()
	s.Write(t, "openshift/release-images", image)
	s.sign(t, "openshift/release-images", s.Releases, s.Digest)
	s.Parts = slices.DeleteFunc(s.Parts, func(p Part) bool { return p.Name == "release" })
	s.note(t, "release", "openshift/release-images", image)
	s.signGPG(t)
}

// newPolicy is the image policy that the release brings, as 4.21 does.
func (s *Stage) newPolicy() string {
	return `apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata: {name: openshift, annotations: {release.openshift.io/feature-set: Default}}
spec:
  scopes: ["` + s.Releases + `", "` + s.Images + `"]
  policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: ` + base64.StdEncoding.EncodeToString(signer.Key("release").PEM()) + `}}}
`
}

func imageName(i int) string {
	switch i {
	case 0:
		return "cluster-version-operator"
	case 1:
		return "rhel-coreos"
	case 2:
		return "rhel-coreos-extensions"
	default:
		return fmt.Sprintf("component-%03d", i)
	}
}

// pushImage pushes an image of the payload, every fourth an index, and returns its digest.
func (s *Stage) pushImage(t testing.TB, group *errgroup.Group, i int, name string) string {
	t.Helper()
	if i%4 != 3 {
		image, err := testregistries.Image(name)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		s.note(t, name, "openshift/release", image)
		group.Go(func() error { return s.pushSigned(image, hash.String()) })
		return hash.String()
	}
	index, err := testregistries.Index(name)
	if err != nil {
		t.Fatal(err)
	}
	index = mutate.IndexMediaType(index, types.DockerManifestList) // old versions of skopeo convert mixed types
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	child, err := index.Image(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	s.Parts = append(s.Parts, Part{"image", name, "/manifests/" + hash.String()})
	s.note(t, name, "openshift/release", child)
	s.Parts[len(s.Parts)-3].What = "child"
	group.Go(func() error {
		if err := remote.WriteIndex(s.reference("openshift/release@"+hash.String()), index); err != nil {
			return err
		}
		for _, of := range list.Manifests {
			if err := s.Attach("openshift/release", s.Images, of.Digest.String()); err != nil {
				return err
			}
		}
		return nil
	})
	return hash.String()
}

func (s *Stage) pushSigned(image v1.Image, digest string) error {
	if err := remote.Write(s.reference("openshift/release@"+digest), image); err != nil {
		return err
	}
	return s.Attach("openshift/release", s.Images, digest)
}

// note notes the parts of an image: its manifest, a layer, and its signature.
func (s *Stage) note(t testing.TB, name, repository string, image v1.Image) {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := layers[len(layers)-1].Digest()
	if err != nil {
		t.Fatal(err)
	}
	s.Parts = append(s.Parts,
		Part{"image", name, repository + "/manifests/" + hash.String()},
		Part{"layer", name, repository + "/blobs/" + layer.String()},
		Part{"signature", name, repository + "/manifests/" + signer.Tag(hash.String())})
}

func (s *Stage) reference(path string) imagename.Reference {
	ref, err := imagename.ParseReference(s.Mirror+"/"+path, imagename.Insecure)
	if err != nil {
		panic(err) // the test's own
	}
	return ref
}

// Write pushes an image by digest.
func (s *Stage) Write(t testing.TB, repository string, image v1.Image) {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(s.reference(repository+"@"+hash.String()), image); err != nil {
		t.Fatal(err)
	}
}

func (s *Stage) sign(t testing.TB, repository, source, digest string) {
	t.Helper()
	if err := s.Attach(repository, source, digest); err != nil {
		t.Fatal(err)
	}
}

// Copy mirrors the release image under a tag elsewhere, with its signature.
func (s *Stage) Copy(tag string) error {
	image, err := remote.Image(s.reference("openshift/release-images@" + s.Digest))
	if err != nil {
		return err
	}
	path := strings.TrimPrefix(tag, s.Mirror+"/")
	if err := remote.Write(s.reference(path), image); err != nil {
		return err
	}
	repository, _, _ := strings.Cut(path, ":")
	return s.Attach(repository, s.Mirror+"/"+repository, s.Digest)
}

// Attach signs an image of a repository, as the image of its digest in source, with keys instead of that of the release.
func (s *Stage) Attach(repository, source, digest string, keys ...string) error {
	if keys == nil {
		keys = []string{"release"}
	}
	image, err := testregistries.NewAttached(signer.Attach(convert.Each(keys, func(key string) signing.Signature { return signer.Key(key).Sign(source+"@"+digest, digest) })...))
	if err != nil {
		return err
	}
	return remote.Write(s.reference(repository+":"+signer.Tag(digest)), image)
}

// Archive packs files into a layer.
func Archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Image is an image for linux/amd64 whose layers are archives as Archive makes them.
func Image(t testing.TB, labels map[string]string, archives ...[]byte) v1.Image {
	t.Helper()
	image := v1.Image(empty.Image)
	for _, a := range archives {
		var err error
		if image, err = mutate.AppendLayers(image, static.NewLayer(a, types.DockerUncompressedLayer)); err != nil {
			t.Fatal(err)
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config.Labels = "linux", "amd64", labels
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	return image
}
