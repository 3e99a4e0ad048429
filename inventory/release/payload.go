package release

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	imagev1 "github.com/openshift/api/image/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// A Payload lists the images of a release.
type Payload struct {
	// Image is the release image, by digest.
	Image string
	// Version is that of release-metadata ("4.21.3").
	Version string
	// Images are those of image-references in the order in which an update needs them: that of the CVO, the others
	// by their run levels, those in no manifest, and the nodes' own last. The release image is not
	// among them.
	Images []Image
	// Policies are the image policies that the release brings, those of all feature sets among them. CVO applies them before nodes are
	// updated.
	Policies []*configv1.ClusterImagePolicy
	// Imports are those of its ImageStreams.
	Imports []Import
	// Unread is why layers below that of the payload could not be read, in which there may be further image
	// policies; nil if all were read.
	Unread error
}

// An Import is an image that an ImageStream ("namespace/name") imports as a tag.
type Import struct{ Stream, Ref string }

// An Image is one of a Payload.
type Image struct {
	// Name is that of its tag in image-references ("machine-config-operator").
	Name string
	// Ref names it by digest.
	Ref string
	// Level is the lowest run level of the manifests that name it, and NoLevel if none does.
	Level int
	// ControlPlane is set if the manifests that name it run it on the control plane, and do nothing else with it.
	ControlPlane bool
	// OS is set for the images of the nodes' system and of its extensions. Every pool needs them.
	OS bool
}

// NoLevel is the Level of images in no manifest: operators deploy them, or an administrator on demand
// (must-gather).
const NoLevel = -1

// cvo is the name of the image that runs first.
const cvo = "cluster-version-operator"

// osNames begin the names of images of the nodes' system, those of OKD included. Before 4.12, releases had formerOS.
var osNames = []string{"rhel-coreos", "stream-coreos", "fedora-coreos", "centos-stream-coreos"}

const formerOS = "machine-os-content"

// isOS is not so for machine-os-images, which pods run that install nodes (cluster-baremetal-operator, provisioning/machine_os_images.go).
func isOS(name string) bool {
	return name == formerOS || slices.ContainsFunc(osNames, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (i Image) rank() int {
	switch {
	case i.Name == cvo:
		return 0
	case i.OS:
		return 3
	case i.Level == NoLevel:
		return 2
	default:
		return 1
	}
}

// PoliciesFor returns the image policies that CVO applies to a cluster with a feature set, "" for the default one (library-go,
// pkg/manifest). Its other conditions, as profiles and capabilities are, are taken to hold.
func (p *Payload) PoliciesFor(set configv1.FeatureSet) []*configv1.ClusterImagePolicy {
	var policies []*configv1.ClusterImagePolicy
	for _, policy := range p.Policies {
		sets, limited := policy.Annotations[featureSets]
		if !limited || slices.Contains(strings.Split(sets, ","), cmp.Or(string(set), "Default")) {
			policies = append(policies, policy)
		}
	}
	return policies
}

// payload makes a Payload of the files of a release image.
func (f *files) payload(image string) (*Payload, error) {
	p := &Payload{Image: image, Policies: f.policies, Imports: f.streams, Unread: f.unread}
	var err error
	if p.Version, err = versionOf(f.metadata); err != nil {
		return nil, fmt.Errorf("%s: %w", metadataFile, err)
	}
	if p.Images, err = f.images(); err != nil {
		return nil, fmt.Errorf("%s: %w", referencesFile, err)
	}
	slices.SortStableFunc(p.Images, func(a, b Image) int { // first what an update needs first
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Level, b.Level), strings.Compare(a.Name, b.Name))
	})
	return p, nil
}

// versionOf reads release-metadata.
func versionOf(data []byte) (string, error) {
	var metadata struct {
		Kind    string `json:"kind"`
		Version string `json:"version"`
	}
	switch err := json.Unmarshal(data, &metadata); {
	case err != nil:
		return "", fmt.Errorf("it cannot be read: %w", err)
	case metadata.Kind != metadataKind:
		return "", fmt.Errorf("its kind is %q, not %s", text.Cut(metadata.Kind, maxShown), metadataKind)
	case metadata.Version == "":
		return "", errors.New("it names no version")
	default:
		return text.Line(text.Cut(metadata.Version, maxShown)), nil
	}
}

const (
	metadataKind = "cincinnati-metadata-v0"
	// maxShown is how much is shown of what a release says.
	maxShown = 100
	// maxImages is ten times what releases have.
	maxImages = 2_000
	// maxValues bounds the values of image-references, counted before it is decoded: an empty tag takes a hundred times its
	// text. Those of releases have less than twenty values.
	maxValues = 50 * maxImages
)

// images reads image-references.
func (f *files) images() ([]Image, error) {
	if rawjson.Values(f.references, maxValues+1) > maxValues {
		return nil, fmt.Errorf("it has more than %s values, which no release has", text.Number(maxValues))
	}
	var stream imagev1.ImageStream
	if err := json.Unmarshal(f.references, &stream); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	switch n := len(stream.Spec.Tags); {
	case stream.Kind != "ImageStream":
		return nil, fmt.Errorf("its kind is %q, not ImageStream", text.Cut(stream.Kind, maxShown))
	case n == 0:
		return nil, errors.New("it names no image")
	case n > maxImages:
		return nil, fmt.Errorf("it names %d images, more than any release has (%d)", n, maxImages)
	}
	images := make([]Image, 0, len(stream.Spec.Tags))
	seen := map[string]bool{}
	for _, tag := range stream.Spec.Tags {
		name := text.Line(text.Cut(tag.Name, maxShown))
		ref, err := referenceOf(tag)
		switch {
		case err != nil:
			return nil, fmt.Errorf("tag %q: %w", name, err)
		case name == "" || seen[name]:
			return nil, fmt.Errorf("tag %q: it has no name, or another has it too", name)
		}
		seen[name] = true
		images = append(images, Image{Name: name, Ref: ref, Level: f.levelOf(ref), ControlPlane: f.onControlPlane(ref), OS: isOS(name)})
	}
	return images, nil
}

// referenceOf returns the image that a tag stands for.
func referenceOf(tag imagev1.TagReference) (string, error) {
	if tag.From == nil || tag.From.Kind != "DockerImage" {
		return "", errors.New("from is no DockerImage")
	}
	ref := tag.From.Name
	if _, _, ok := mirrors.Canonical(ref); !ok || len(ref) > maxReference || !mirrors.ByDigest(ref) {
		return "", fmt.Errorf("%q is no reference by digest", text.Line(text.Cut(ref, maxShown)))
	}
	return ref, nil
}

// maxReference is more than any registry accepts.
const maxReference = 1_024

func (f *files) onControlPlane(ref string) bool {
	_, digest, _ := strings.Cut(ref, "@")
	return f.unread == nil && f.control[digest] && !f.elsewhere[digest]
}

func (f *files) levelOf(ref string) int {
	_, digest, _ := strings.Cut(ref, "@")
	if level, ok := f.levels[digest]; ok {
		return level
	}
	return NoLevel
}
