package judge_test

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

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
	testregistries "github.com/mirrorset-guard/mirrorset-guard/test/registries"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// push puts an index into a repository of the mirror, and returns its digest.
func (s stage) push(t *testing.T, repository string, index v1.ImageIndex) string {
	t.Helper()
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(s.reference(t, repository, hash.String()), index); err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func (s stage) reference(t *testing.T, repository, digest string) imagename.Digest {
	t.Helper()
	ref, err := imagename.NewDigest(s.Mirror+"/openshift/"+repository+"@"+digest, imagename.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// node gives node a or b of the stage another system and architecture.
func node(objects, name, platform string) string {
	at := strings.Index(objects, "metadata: {name: "+name+",")
	system, architecture, _ := strings.Cut(platform, "/")
	return objects[:at] + strings.Replace(objects[at:], "{operatingSystem: linux, architecture: amd64,", "{operatingSystem: "+system+", architecture: "+architecture+",", 1)
}

// TestPlatformOfWorker: an image of the payload that lacks the platform of a node is named, with the platform, unless the release runs it on the
// control plane alone.
func TestPlatformOfWorker(t *testing.T) {
	s := newStage(t, 4)
	const name = "component-003"
	stateOf := func(r *readiness.Readiness, name string) readiness.Image {
		return r.Images[slices.IndexFunc(r.Images, func(i readiness.Image) bool { return i.Name == name })]
	}
	r := judgeOf(t, node(s.with(t), "b", "linux/arm64"))
	for image, state := range map[string]readiness.State{name: ready, "release": ready, "cluster-version-operator": ready, "rhel-coreos": notReady} {
		if got := stateOf(r, image); got.State != state {
			t.Errorf("with both platforms, want %s: %+v", state, got)
		}
	}
	if r := judgeOf(t, node(s.with(t), "b", "windows/amd64")); r.State() != ready {
		t.Errorf("with a node of Windows, which takes none of it:\n%s", r.Answer().String())
	}
	half, err := testregistries.IndexOf(name, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	s.Remake(t, testrelease.Archive(t, nil), s.digestOf(name), s.push(t, "release", half))
	if got := stateOf(judgeOf(t, node(s.with(t), "b", "linux/arm64")), name); got.State != notReady || got.Findings[0].Rule != policy.PlatformMissing || got.Findings[0].Reason != "nodes have the platform linux/arm64, and the image is not for it" {
		t.Errorf("without linux/arm64: %+v", got)
	}
}

// TestPlatformOfControlPlane: a release image that lacks a platform of the control plane is not ready, and the platform is named. That of a worker is
// not asked for: no other node pulls the release image.
func TestPlatformOfControlPlane(t *testing.T) {
	s := newStage(t, 4)
	image, err := remote.Image(s.reference(t, "release-images", s.Digest))
	if err != nil {
		t.Fatal(err)
	}
	second := s.with(t)[strings.Index(s.with(t), "kind: Node\nmetadata: {name: a,"):]
	second = "apiVersion: v1\n" + strings.NewReplacer("name: a,", "name: c,", "amd64", "arm64").Replace(second[:strings.Index(second, "---\n")])
	for _, tt := range []struct {
		reason, objects, platforms, says string
	}{
		{"it has the platform", s.with(t), "linux/arm64 linux/amd64", ", for linux/amd64.\n5 of 5 images"},
		{"it lacks the platform", s.with(t), "linux/arm64 linux/s390x", "NOT READY: the release image has no part for the control plane\n- "},
		{"it lacks one of two", s.with(t, "", second), "linux/amd64", "NOT READY: the release image has no part for some nodes of the control plane\n- "},
	} {
		index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
		for _, p := range strings.Fields(tt.platforms) {
			os, architecture, _ := strings.Cut(p, "/")
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: architecture}}})
		}
		w := worldOf(t, tt.objects)
		r, err := judge.Release(t.Context(), w, find(t, w, s.Releases+"@"+s.push(t, "release-images", index)))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.Answer().String(), tt.says) || r.State() != notReady { // for its GPG signature, if for nothing else
			t.Errorf("%s:\n%s", tt.reason, r.Answer().String())
		}
		if lacks := tt.reason != "it has the platform"; strings.Contains(r.Answer().String(), "no part for") != lacks {
			t.Errorf("%s:\n%s", tt.reason, r.Answer().String())
		}
	}
}
