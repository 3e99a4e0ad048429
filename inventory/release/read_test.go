package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
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
		got := convert.Each(p.Images, func(i Image) string { return fmt.Sprint(i.Name, " ", i.Level) })
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
		{"it has more than 100,000 values, which no release has", [][]byte{layerOf(t, member{name: "release-manifests/image-references", content: `{"kind":"ImageStream","spec":{"tags":[{}` + strings.Repeat(",{}", 1_000_000) + `]}}`}, member{name: "release-manifests/release-metadata", content: metadata})}},
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
	if _, err := Read(context.Background(), img, "quay.io/r@sha256:1"); !errors.Is(err, ErrTooMuch) || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("got %v", err)
	}
}

// TestOS: of the images of a payload, those are the nodes' system that MCO's daemon puts on disk; machine-os-images is an init container of metal3.
func TestOS(t *testing.T) {
	for name, want := range map[string]bool{
		"rhel-coreos": true, "rhel-coreos-10": true, "rhel-coreos-extensions": true, "stream-coreos-extensions": true, "machine-os-content": true,
		"machine-os-images": false, "machine-config-operator": false, "coreos-installer": false,
	} {
		if isOS(name) != want {
			t.Errorf("%s is the nodes' system: %t, want %t", name, !want, want)
		}
	}
}

// A slow layer flows no further until its reading ends.
type slow struct {
	v1.Layer
	ctx context.Context
}

func (l slow) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(l), nil }

// Read implements io.Reader.
func (l slow) Read([]byte) (int, error) {
	<-l.ctx.Done()
	return 0, l.ctx.Err()
}

// TestReadSlow: what is found of a payload is not thrown away if the layers below do not come in time, unless nobody wants it any more.
func TestReadSlow(t *testing.T) {
	for what, want := range map[string]error{"too slow": context.DeadlineExceeded, "not wanted any more": context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithTimeout(t.Context(), time.Minute)
			defer end()
			if errors.Is(want, context.Canceled) {
				time.AfterFunc(time.Second, end)
			}
			image, err := mutate.AppendLayers(empty.Image, slow{static.NewLayer([]byte("below"), types.OCIUncompressedLayer), ctx}, static.NewLayer(layerOf(t, whole()...), types.OCIUncompressedLayer))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Read(ctx, image, "quay.io/r@sha256:1")
			if p != nil {
				err = errors.Join(err, p.Unread)
			}
			if (p != nil) != errors.Is(want, context.DeadlineExceeded) || !errors.Is(err, want) {
				t.Errorf("%s: got %v, %v", what, p, err)
			}
		})
	}
}

// TestReadAliases: a manifest of which aliases make a large one is not looked into, and one with an image policy is refused.
func TestReadAliases(t *testing.T) {
	const run = "x@sha256:0000000000000000000000000000000000000000000000000000000000000001"
	bomb := "x: &a \"" + strings.Repeat("a", 20_000) + "\"\ny: [" + strings.Repeat("*a,", 1_000) + "]\n"
	pod := "kind: Pod\nspec: {nodeSelector: {node-role.kubernetes.io/master: ''}, containers: [{image: '" + run + "'}]}\n"
	f := &files{levels: map[string]int{}, placement: placement{map[string]bool{}, map[string]bool{}}}
	if allocated := allocatedBy(func() {
		if err := f.manifest(t.Context(), "release-manifests/0000_10_a.yaml", []byte(pod+bomb)); err != nil {
			t.Error(err)
		}
	}); allocated > 4<<20 {
		t.Errorf("%d MiB allocated for %d KiB", allocated>>20, len(bomb)>>10)
	}
	if f.onControlPlane(run) {
		t.Error("what was not looked into is taken to run on the control plane only")
	}
	err := f.manifest(t.Context(), "release-manifests/0000_10_b.yaml", []byte("kind: ClusterImagePolicy\n"+bomb))
	if err == nil || !strings.Contains(err.Error(), "0000_10_b.yaml: it cannot be read: its aliases stand for more than 1 MiB") {
		t.Errorf("got %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := f.manifest(ended, "release-manifests/0000_10_c.yaml", []byte("kind: ClusterImagePolicy\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after the end", err)
	}
}

// allocatedBy returns how many bytes are allocated meanwhile.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestReadBelow: image policies of all layers count unless a layer above hides them, and a layer below that cannot be
// read is said to be missing.
func TestReadBelow(t *testing.T) {
	policy := func(file, name string) member {
		return member{name: "release-manifests/" + file, content: "kind: ClusterImagePolicy\nmetadata: {name: " + name + "}\n"}
	}
	payload := layerOf(t, whole()...)
	for name, tt := range map[string]struct {
		layers [][]byte
		want   []string
		unread string
	}{
		"below":             {layers: [][]byte{layerOf(t, policy("a.yaml", "a")), payload}, want: []string{"a"}},
		"two layers below":  {layers: [][]byte{layerOf(t, policy("a.yaml", "a")), layerOf(t, member{name: "usr/x", content: "x"}), payload}, want: []string{"a"}},
		"replaced":          {layers: [][]byte{layerOf(t, policy("a.yaml", "a")), layerOf(t, policy("a.yaml", "b")), payload}, want: []string{"b"}},
		"hidden, no policy": {layers: [][]byte{layerOf(t, policy("a.yaml", "a")), layerOf(t, whole(member{name: "release-manifests/a.yaml", content: "kind: List"})...)}},
		"hidden by a link":  {layers: [][]byte{layerOf(t, policy("a.yaml", "a")), layerOf(t, whole(member{name: "release-manifests/a.yaml", content: "b.yaml", kind: tar.TypeSymlink})...)}},
		"removed":           {layers: [][]byte{layerOf(t, policy("a.yaml", "a")), layerOf(t, whole(member{name: "release-manifests/.wh.a.yaml"})...)}},
		"opaque":            {layers: [][]byte{layerOf(t, policy("a.yaml", "a")), layerOf(t, whole(member{name: "release-manifests/.wh..wh..opq"}, policy("b.yaml", "b"))...)}, want: []string{"b"}},
		"folder removed":    {layers: [][]byte{layerOf(t, policy("a.yaml", "a")), layerOf(t, member{name: ".wh.release-manifests"}), payload}},
		"a link below":      {layers: [][]byte{layerOf(t, member{name: "release-manifests", content: "/usr", kind: tar.TypeSymlink}), payload}},
		"no archive below":  {layers: [][]byte{[]byte(strings.Repeat("no archive", 1000)), payload}, unread: "reading its archive"},
		"no policy below":   {layers: [][]byte{layerOf(t, member{name: "release-manifests/a.yaml", content: "kind: ClusterImagePolicy\nspec: [1"}), payload}, unread: "a.yaml: it cannot be read"},
	} {
		p, err := Read(context.Background(), imageOf(t, tt.layers...), "quay.io/r@sha256:1")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := convert.Each(p.Policies, (*configv1.ClusterImagePolicy).GetName)
		if !slices.Equal(got, tt.want) || (p.Unread == nil) != (tt.unread == "") || p.Unread != nil && !strings.Contains(p.Unread.Error(), tt.unread) {
			t.Errorf("%s: got %q and %v, want %q and %q", name, got, p.Unread, tt.want, tt.unread)
		}
	}
}

// TestPoliciesFor: CVO applies an image policy to clusters of the feature sets that it names, or to all, and never one that it removes.
func TestPoliciesFor(t *testing.T) {
	const of = "---\nkind: ClusterImagePolicy\nmetadata: {name: %s, annotations: {%s}}\n"
	manifest := fmt.Sprintf(of, "all", "") + fmt.Sprintf(of, "preview", "release.openshift.io/feature-set: 'TechPreviewNoUpgrade,CustomNoUpgrade'") +
		fmt.Sprintf(of, "default", "release.openshift.io/feature-set: Default") + fmt.Sprintf(of, "removed", "release.openshift.io/delete: 'true'") +
		fmt.Sprintf(of, "none", "release.openshift.io/feature-set: ''")
	p, err := Read(t.Context(), imageOf(t, layerOf(t, whole(member{name: "release-manifests/a.yaml", content: manifest})...)), "quay.io/r@sha256:1")
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[configv1.FeatureSet]string{
		configv1.Default: "all default", configv1.TechPreviewNoUpgrade: "all preview", configv1.CustomNoUpgrade: "all preview", configv1.DevPreviewNoUpgrade: "all",
	} {
		got := convert.Each(p.PoliciesFor(set), (*configv1.ClusterImagePolicy).GetName)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %s", set, got, want)
		}
	}
}

// TestReadSum: what is kept of a layer, of its image policies and of the digests in it is bounded, however small its archive is.
func TestReadSum(t *testing.T) {
	payload := layerOf(t, whole()...)
	many := func(n int, content string) []byte {
		var members []member
		for i := range n {
			members = append(members, member{name: fmt.Sprintf("release-manifests/%d.yaml", i), content: content})
		}
		return layerOf(t, members...)
	}
	var digests strings.Builder
	for i := range maxDigests + 1 {
		fmt.Fprintf(&digests, "a@sha256:%064d\n", i)
	}
	policy := "kind: ClusterImagePolicy\nmetadata: {name: a, annotations: {a: " + strings.Repeat("a", 1<<20) + "}}\n"
	for _, tt := range []struct {
		below []byte
		want  string
	}{
		{many(17, strings.Repeat("x", maxFile)), "/release-manifests has more than 64 MiB"},
		{many(5, policy), "more image policies than any release has"},
		{many(101, "kind: ClusterImagePolicy\n"), "more image policies than any release has"},
		{many(1, digests.String()), "more than 20,000 images"},
		{append(sparse("release-manifests/a.yaml", 1<<20), make([]byte, 1024)...), "release-manifests/a.yaml is a sparse file"},
	} {
		p, err := Read(t.Context(), imageOf(t, tt.below, payload), "quay.io/r@sha256:1")
		if err != nil || p.Unread == nil || !strings.Contains(p.Unread.Error(), tt.want) {
			t.Errorf("%v, %v, want %s", p, err, tt.want)
		}
	}
	if _, err := Read(t.Context(), imageOf(t, payload, append(sparse("usr/a", 1<<20), make([]byte, 1024)...)), "quay.io/r@sha256:1"); err != nil {
		t.Errorf("a sparse file elsewhere: %v", err)
	}
}

// sparse returns a file that is a hole, as an archive without its end. archive/tar writes none.
func sparse(name string, size int) []byte {
	record := func(key, value string) string {
		for n := len(key) + len(value) + 3; ; n++ {
			if s := fmt.Sprintf("%d %s=%s\n", n, key, value); len(s) == n {
				return s
			}
		}
	}
	var b bytes.Buffer
	entry := func(kind byte, name, content string) {
		h := make([]byte, 512)
		copy(h, name)
		copy(h[100:], "0000644\x000000000\x000000000\x00"+fmt.Sprintf("%011o\x00", len(content))+"00000000000\x00        ")
		h[156] = kind
		copy(h[257:], "ustar\x0000")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		b.Write(h)
		b.WriteString(content)
		b.Write(make([]byte, -len(content)&511))
	}
	entry('x', "pax", record("GNU.sparse.major", "1")+record("GNU.sparse.minor", "0")+record("GNU.sparse.name", name)+record("GNU.sparse.realsize", fmt.Sprint(size)))
	entry('0', "data", fmt.Sprintf("1\n%d\n0\n", size)+strings.Repeat("\x00", 512-len(fmt.Sprintf("1\n%d\n0\n", size))))
	return b.Bytes()
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
