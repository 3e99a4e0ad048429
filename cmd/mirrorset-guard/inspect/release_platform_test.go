package inspect

import (
	"slices"
	"strings"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// multi puts an index of the release image on the mirror, with a part for each platform, and returns its digest.
func (s releaseStage) multi(t *testing.T, platforms ...string) string {
	t.Helper()
	reference := func(digest string) imagename.Digest {
		ref, err := imagename.NewDigest(s.Mirror+"/openshift/release-images@"+digest, imagename.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	image, err := remote.Image(reference(s.Digest))
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for _, p := range platforms {
		os, arch, _ := strings.Cut(p, "/")
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}}})
	}
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(reference(hash.String()), index); err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

// TestReleasePlatformOfWorker: an image of the payload that lacks the platform of a worker is named, with the platform.
func TestReleasePlatformOfWorker(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Without()
	const name = "component-003"
	whole, err := testregistries.Index(name)
	if err != nil {
		t.Fatal(err)
	}
	half, err := testregistries.IndexOf(name, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	for _, index := range []v1.ImageIndex{whole, half} {
		list, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range list.Manifests {
			if err := s.Attach("openshift/release", s.Images, part.Digest.String()); err != nil {
				t.Fatal(err)
			}
		}
	}
	hash, err := half.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := imagename.NewDigest(s.Mirror+"/openshift/release@"+hash.String(), imagename.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, half); err != nil {
		t.Fatal(err)
	}
	worker := func(system, arch string) v1alpha1.ReleaseReview {
		t.Helper()
		objects := s.Objects(s.Signed)
		b := strings.Index(objects, "metadata: {name: b,")
		objects = objects[:b] + strings.Replace(objects[b:], "{operatingSystem: linux, architecture: amd64,", "{operatingSystem: "+system+", architecture: "+arch+",", 1)
		return decodeRelease(t, s.check(t, clitest.Written(t, "dump.yaml", objects), testrelease.Version, "-o", "json"))
	}
	of := func(doc v1alpha1.ReleaseReview, name string) v1alpha1.ReleaseImage {
		return doc.Images[slices.IndexFunc(doc.Images, func(i v1alpha1.ReleaseImage) bool { return i.Name == name })]
	}
	doc := worker("linux", "arm64")
	for image, state := range map[string]string{name: "READY", "release": "READY", "cluster-version-operator": "READY", "rhel-coreos": "NOT READY"} { // the control plane has amd64
		if got := of(doc, image); got.State != state {
			t.Errorf("with both platforms, want %s: %+v", state, got)
		}
	}
	if doc := worker("windows", "amd64"); doc.Verdict != "READY" {
		t.Errorf("with a node of Windows, which takes none of it: %+v", doc)
	}
	part := s.PartOf(name, "image").Path
	s.Remake(t, testrelease.Archive(t, nil), part[strings.LastIndex(part, "/")+1:], hash.String())
	if got := of(worker("linux", "arm64"), name); got.State != "NOT READY" || len(got.Findings) == 0 || got.Findings[0].Rule != "PlatformMissing" || !strings.HasPrefix(got.Findings[0].Reason, "nodes have the platform linux/arm64, and the image is not for it") {
		t.Errorf("without linux/arm64: %+v", got)
	}
}

// TestReleasePlatform: a release for several platforms that lacks one of the control plane's is not ready, and the platform
// is named. That of a worker's is not asked for: no node but the control plane's pulls the release image.
func TestReleasePlatform(t *testing.T) {
	s := releaseStage{testrelease.Mirrored(t, 4)}
	s.Without()
	objects := s.Objects(s.Signed)
	second := strings.ReplaceAll(objects[strings.Index(objects, "kind: Node\nmetadata: {name: a,")-len("apiVersion: v1\n"):strings.Index(objects, "kind: Node\nmetadata: {name: b,")-len("---\napiVersion: v1\n")], "amd64", "arm64")
	second = "---\n" + strings.Replace(second, "metadata: {name: a,", "metadata: {name: c,", 1)
	for _, tt := range []struct {
		reason, more string
		platforms    []string
		want         []string
		not          string
	}{
		{"it has the platform", "", []string{"linux/arm64", "linux/amd64"}, []string{"Its payload was read from", ", for linux/amd64", "5 of 5 images"}, "no part for"},
		{"it lacks the platform", "", []string{"linux/arm64", "linux/s390x"}, []string{"NOT READY: Release", "NOT READY: the release image has no part for the control plane", " lacks linux/amd64"}, ""},
		{"it lacks one of two", second, []string{"linux/amd64"}, []string{"NOT READY: Release", "the release image has no part for some nodes of the control plane", " lacks linux/arm64"}, ""},
	} {
		digest := s.multi(t, tt.platforms...)
		got := s.check(t, clitest.Written(t, "dump.yaml", objects+tt.more), testrelease.Source+"@"+digest)
		t.Log(tt.reason)
		wantOutcome(t, got, cli.ExitDenied, tt.want...) // for its GPG signature, if for nothing else
		if tt.not != "" && strings.Contains(got.Out, tt.not) {
			t.Errorf("%q in:\n%s", tt.not, got.Out)
		}
	}
}
