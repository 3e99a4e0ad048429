package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A member is an entry of a layer.
type member struct {
	name, content string
	kind          byte // 0 for a file
}

func layerOf(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		header := &tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.content)), Typeflag: tar.TypeReg}
		if m.kind != 0 {
			header.Typeflag, header.Size, header.Linkname = m.kind, 0, m.content
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if m.kind == 0 {
			if _, err := io.WriteString(w, m.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func imageOf(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	img := empty.Image
	for _, l := range layers {
		var err error
		if img, err = mutate.AppendLayers(img, static.NewLayer(l, types.OCIUncompressedLayer)); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

var (
	hex  = strings.Repeat("ab", 32)
	good = fmt.Sprintf(`{"kind":"ImageStream","spec":{"tags":[
{"name":"etcd","from":{"kind":"DockerImage","name":"quay.io/x/y@sha256:%[1]s"}},
{"name":"rhel-coreos","from":{"kind":"DockerImage","name":"quay.io/x/y@sha256:%[2]s"}},
{"name":"must-gather","from":{"kind":"DockerImage","name":"quay.io/x/y@sha256:%[3]s"}},
{"name":"cluster-version-operator","from":{"kind":"DockerImage","name":"quay.io/x/y@sha256:%[4]s"}}]}}`,
		hex, strings.Repeat("cd", 32), strings.Repeat("ef", 32), strings.Repeat("01", 32))
	metadata = `{"kind":"cincinnati-metadata-v0","version":"4.21.3"}`
)

func whole(extra ...member) []member {
	return append([]member{{name: "release-manifests/image-references", content: good}, {name: "release-manifests/release-metadata", content: metadata}}, extra...)
}

// TestRead: the order of an update, run levels, and layers that hide others.
func TestRead(t *testing.T) {
	for name, layers := range map[string][][]byte{
		"one layer":      {layerOf(t, whole(member{name: "release-manifests/0000_20_etcd.yaml", content: "image: x@sha256:" + hex}, member{name: "release-manifests/0000_12_etcd.yaml", content: "image: x@sha256:" + hex})...)},
		"absolute names": {layerOf(t, member{name: "./release-manifests/image-references", content: good}, member{name: "/release-manifests/release-metadata", content: metadata}, member{name: "./release-manifests/0000_12_etcd.yaml", content: hexRef()})},
		"a layer on top": {layerOf(t, whole(member{name: "release-manifests/0000_12_etcd.yaml", content: hexRef()})...), layerOf(t, member{name: "usr/bin/x", content: "x"})},
		"one in each":    {layerOf(t, member{name: "release-manifests/image-references", content: good}), layerOf(t, member{name: "release-manifests/release-metadata", content: metadata}, member{name: "release-manifests/0000_12_etcd.yaml", content: hexRef()})},
		"replaced":       {layerOf(t, member{name: "release-manifests/image-references", content: "old"}, member{name: "release-manifests/release-metadata", content: metadata}), layerOf(t, member{name: "release-manifests/image-references", content: good}, member{name: "release-manifests/0000_12_etcd.yaml", content: hexRef()})},
	} {
		p, err := Read(context.Background(), imageOf(t, layers...), "quay.io/r@sha256:1")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, i := range p.Images {
			got = append(got, fmt.Sprint(i.Name, " ", i.Level))
		}
		if want := "cluster-version-operator -1, etcd 12, must-gather -1, rhel-coreos -1"; strings.Join(got, ", ") != want || p.Version != "4.21.3" {
			t.Errorf("%s: got %s %q", name, p.Version, got)
		}
	}
}

func hexRef() string { return "image: x@sha256:" + hex }

// TestReadRefuses: what is no release, or was made to do harm, is refused with a word.
func TestReadRefuses(t *testing.T) {
	tags := strings.Repeat(`{"name":"a","from":{}},`, 30_000)
	for _, tt := range []struct {
		want   string
		layers [][]byte
	}{
		{"it is no release image: none of its layers has /release-manifests/image-references and /release-manifests/release-metadata", [][]byte{layerOf(t, member{name: "usr/bin/x", content: "x"})}},
		{"none of its layers has /release-manifests/release-metadata", [][]byte{layerOf(t, member{name: "release-manifests/image-references", content: good})}},
		{"none of its layers has /release-manifests/image-references and", [][]byte{layerOf(t, whole()...), layerOf(t, member{name: ".wh.release-manifests"})}},
		{"none of its layers has /release-manifests/image-references", [][]byte{layerOf(t, whole()...), layerOf(t, member{name: "release-manifests/.wh.image-references"})}},
		{"it names 30000 images, more than any release has (2000)", [][]byte{layerOf(t, member{name: "release-manifests/image-references", content: `{"kind":"ImageStream","spec":{"tags":[` + strings.TrimSuffix(tags, ",") + `]}}`}, member{name: "release-manifests/release-metadata", content: metadata})}},
		{"it names no image", [][]byte{layerOf(t, member{name: "release-manifests/image-references", content: `{"kind":"ImageStream"}`}, member{name: "release-manifests/release-metadata", content: metadata})}},
		{`tag "a": "quay.io/x:v1" is no reference by digest`, [][]byte{layerOf(t, member{name: "release-manifests/image-references", content: `{"kind":"ImageStream","spec":{"tags":[{"name":"a","from":{"kind":"DockerImage","name":"quay.io/x:v1"}}]}}`}, member{name: "release-manifests/release-metadata", content: metadata})}},
		{"it names no version", [][]byte{layerOf(t, member{name: "release-manifests/image-references", content: good}, member{name: "release-manifests/release-metadata", content: `{"kind":"cincinnati-metadata-v0"}`})}},
		{`a path that leads out of it: "release-manifests/../../etc/passwd"`, [][]byte{layerOf(t, member{name: "release-manifests/../../etc/passwd", content: "x"})}},
		{"release-manifests/image-references is no file but a link", [][]byte{layerOf(t, member{name: "release-manifests/image-references", content: "/etc/passwd", kind: tar.TypeSymlink})}},
		{"has 5 MiB, more than any release (4)", [][]byte{layerOf(t, member{name: "release-manifests/x.yaml", content: strings.Repeat("x", 5<<20)})}},
		{"reading its archive", [][]byte{[]byte(strings.Repeat("no archive", 1000))}},
		{"0000_10_x.yaml: it cannot be read", [][]byte{layerOf(t, whole(member{name: "release-manifests/0000_10_x.yaml", content: "kind: ClusterImagePolicy\nspec: [1"})...)}},
	} {
		_, err := Read(context.Background(), imageOf(t, tt.layers...), "quay.io/r@sha256:1")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// TestReadBomb: a layer that is small as long as it is packed is not unpacked beyond the limit.
func TestReadBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "zeros", Mode: 0o644, Size: 200 << 20, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, io.LimitReader(zeros{}, 200<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(imageOf(t, layerOf(t, whole()...)), packed{static.NewLayer(b.Bytes(), types.OCILayer)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(context.Background(), img, "quay.io/r@sha256:1"); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A packed layer is unpacked as that of a registry is.
type packed struct{ v1.Layer }

func (p packed) Uncompressed() (io.ReadCloser, error) {
	r, err := p.Compressed()
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(r)
	return z, err
}
