package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	configv1 "github.com/openshift/api/config/v1"
	imagev1 "github.com/openshift/api/image/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/onedoc"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// The limits for reading a release image. Real ones have some 20 MiB of manifests.
const (
	// maxScanned bounds what layers have, unpacked, until the two files are found that make a release.
	maxScanned = 64 << 20
	// maxBelow bounds what the layers below have, which are those of CVO's own image: half of this, in real releases.
	// They are read for manifests in them.
	maxBelow = 1 << 30
	// maxFile bounds a file that is read.
	maxFile = 4 << 20
	// maxManifests bounds what the manifests of a layer have together, which are kept until the layer ends.
	maxManifests = 64 << 20
	// maxPolicies bounds the image policies of a release, which has one; all together have no more than maxFile.
	maxPolicies = 100
	// maxDigests bounds the digests in manifests. It is ten times as many as images are read.
	maxDigests = 10 * maxImages
)

const (
	folder         = "release-manifests"
	referencesFile = folder + "/image-references"
	metadataFile   = folder + "/release-metadata"
)

// ErrNoRelease is wrapped by the error of an image that is no release image.
var ErrNoRelease = errors.New("it is no release image")

// Read reads the payload of a release image, which is called reference. The error wraps ErrNoRelease if the image
// was read and is none. Once the two files that make a release are found, Payload.Unread holds the error of a
// layer below, or that of a ctx that ended before.
func Read(ctx context.Context, image v1.Image, reference string) (*Payload, error) {
	reader, err := newReader(image)
	if err != nil {
		return nil, err
	}
	f := &files{levels: map[string]int{}, placement: placement{map[string]bool{}, map[string]bool{}}}
	for {
		whole := f.isWhole()
		err := f.next(ctx, reader)
		switch {
		case errors.Is(err, io.EOF) && !whole:
			return nil, f.missing()
		case errors.Is(err, io.EOF):
			return f.payload(reference)
		case err != nil && whole && !errors.Is(ctx.Err(), context.Canceled):
			f.unread = err
			return f.payload(reference)
		case err != nil:
			return nil, wrong(err)
		case f.isWhole() && !whole:
			reader.budget = maxBelow
		}
	}
}

// next reads a layer.
func (f *files) next(ctx context.Context, reader *reader) error {
	found := found{files: map[string][]byte{}}
	if err := reader.next(ctx, found.keep); err != nil {
		return err
	}
	switch err := f.take(ctx, found.files); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNoRelease, err)
	default:
		return nil
	}
}

// wrong explains the error of a layer before the payload was found.
func wrong(err error) error {
	fault := new(Fault)
	switch {
	case errors.Is(err, ErrTooMuch):
		return fmt.Errorf("its last layers have more than %d MiB until %s and %s are found, which no release has: %w", maxScanned>>20, referencesFile, metadataFile, err)
	case errors.As(err, &fault): // for good: it is what the digest names
		return fmt.Errorf("%w: %w", ErrNoRelease, err)
	default:
		return err
	}
}

// files are the kept parts of the files of a release image.
type files struct {
	references, metadata []byte
	levels               map[string]int // by digest
	placement
	policies   []*configv1.ClusterImagePolicy
	streams    []Import
	policySize int
	unread     error
}

func (f *files) isWhole() bool { return f.references != nil && f.metadata != nil }

func (f *files) missing() error {
	var missing []string
	for name, data := range map[string][]byte{referencesFile: f.references, metadataFile: f.metadata} {
		if data == nil {
			missing = append(missing, "/"+name)
		}
	}
	slices.Sort(missing)
	return fmt.Errorf("%w: none of its layers has %s", ErrNoRelease, strings.Join(missing, " and "))
}

// A found is the files of a layer, by their names.
type found struct {
	files map[string][]byte
	size  int
}

// keep keeps a file of a layer if it is of use.
func (f *found) keep(file file, content io.Reader) error {
	switch {
	case path.Dir(file.name) != folder:
		return nil
	case file.isLink:
		if file.name == referencesFile || file.name == metadataFile {
			return fmt.Errorf("%s is no file but a link", file.name)
		}
		return nil
	case file.size > maxFile:
		return fmt.Errorf("%s has %d MiB, more than any release (%d)", file.shown(), file.size>>20, maxFile>>20)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file.shown(), err)
	}
	if f.size += len(data); f.size > maxManifests {
		return fmt.Errorf("/%s has more than %d MiB, which no release has", folder, maxManifests>>20)
	}
	f.files[file.name] = data
	return nil
}

// take keeps what a layer has.
func (f *files) take(ctx context.Context, found map[string][]byte) error {
	for name, data := range found {
		switch name {
		case referencesFile:
			f.references = data
		case metadataFile:
			f.metadata = data
		default:
			if err := f.manifest(ctx, name, data); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	runLevel = regexp.MustCompile(`^0000_(\d{1,4})_`)
	digests  = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
)

// manifest notes which images a manifest names, where it runs them, and the image policies in it.
func (f *files) manifest(ctx context.Context, name string, data []byte) error {
	base := path.Base(name)
	f.note(ctx, data)
	if match := runLevel.FindStringSubmatch(base); match != nil {
		level, _ := strconv.Atoi(match[1])
		for _, digest := range digests.FindAll(data, -1) {
			if lowest, ok := f.levels[string(digest)]; !ok || level < lowest {
				f.levels[string(digest)] = level
			}
		}
	}
	if len(f.levels)+len(f.control)+len(f.elsewhere) > maxDigests {
		return fmt.Errorf("its manifests name more than %s images, more than those of any release", text.Number(maxDigests))
	}
	if bytes.Contains(data, []byte("ImageStream")) {
		f.imports(ctx, data)
	}
	if !bytes.Contains(data, []byte("ClusterImagePolicy")) {
		return nil
	}
	return f.imagePolicies(ctx, text.Line(text.Cut(base, maxShown)), data)
}

// imports notes what the ImageStreams of a manifest import. One that cannot be read is for CVO to report.
func (f *files) imports(ctx context.Context, data []byte) {
	for document, err := range documents(ctx, data) {
		var stream imagev1.ImageStream
		if err != nil || onedoc.Unmarshal(document, &stream) != nil || stream.Kind != "ImageStream" || stream.Annotations[deletes] == "true" {
			continue
		}
		for _, tag := range stream.Spec.Tags {
			if tag.From != nil && tag.From.Kind == "DockerImage" && len(f.streams) < maxPolicies {
				f.streams = append(f.streams, Import{stream.Namespace + "/" + stream.Name, tag.From.Name})
			}
		}
	}
}

// Annotations of manifests by which CVO applies one only to clusters of some feature sets, and removes what one names.
const (
	featureSets = "release.openshift.io/feature-set"
	deletes     = "release.openshift.io/delete"
)

// imagePolicies keeps the image policies of a manifest, without those that CVO removes.
func (f *files) imagePolicies(ctx context.Context, name string, data []byte) error {
	for document, err := range documents(ctx, data) {
		var p configv1.ClusterImagePolicy
		if err == nil {
			err = onedoc.Unmarshal(document, &p)
		}
		if err != nil {
			return fmt.Errorf("%s: it cannot be read: %w", name, err)
		}
		if p.Kind != "ClusterImagePolicy" || p.Annotations[deletes] == "true" {
			continue
		}
		f.policies = append(f.policies, &p)
		if f.policySize += len(document); len(f.policies) > maxPolicies || f.policySize > maxFile {
			return fmt.Errorf("%s: more image policies than any release has", name)
		}
	}
	return nil
}
