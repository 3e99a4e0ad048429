package release

import (
	"archive/tar"
	"bufio"
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
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// The limits of what is read of a release image. Real ones have some 20 MiB of manifests.
const (
	// maxScanned bounds what layers have, unpacked, until everything is found.
	maxScanned = 64 << 20
	// maxFile bounds a file that is read.
	maxFile = 4 << 20
	// maxPolicies bounds the image policies of a release, which has one.
	maxPolicies = 100
)

const (
	folder         = "release-manifests"
	referencesFile = folder + "/image-references"
	metadataFile   = folder + "/release-metadata"
)

// ErrNoRelease is wrapped by the error of an image that is no release image.
var ErrNoRelease = errors.New("it is no release image")

// Read reads the payload of a release image, which is called reference. The error wraps ErrNoRelease if the image
// was read and is none.
func Read(ctx context.Context, image v1.Image, reference string) (*Payload, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, fmt.Errorf("reading its manifest: %w", err)
	}
	f := &files{levels: map[string]int{}, hidden: map[string]bool{}}
	left := &budget{left: maxScanned}
	for _, layer := range slices.Backward(layers) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := f.layer(layer, left); err != nil {
			return nil, err
		}
		if f.references != nil && f.metadata != nil {
			return f.payload(reference)
		}
	}
	var missing []string
	for name, data := range map[string][]byte{referencesFile: f.references, metadataFile: f.metadata} {
		if data == nil {
			missing = append(missing, "/"+name)
		}
	}
	slices.Sort(missing)
	return nil, fmt.Errorf("%w: none of its layers has %s", ErrNoRelease, strings.Join(missing, " and "))
}

// files are what is kept of the files of a release image.
type files struct {
	references, metadata []byte
	levels               map[string]int // by digest
	policies             []*configv1.ClusterImagePolicy
	// hidden are files, and folders, that a later layer has or has removed.
	hidden map[string]bool
}

// layer reads a layer that is below those read before. Nothing of it counts unless its digest is right, which
// shows at its end.
func (f *files) layer(layer v1.Layer, left *budget) error {
	digest, err := layer.Digest()
	if err != nil {
		return fmt.Errorf("reading its manifest: %w", err)
	}
	name := "its layer " + text.ShortDigest(digest.String())
	if size, err := layer.Size(); err != nil || size > int64(left.left) {
		return fmt.Errorf("%s: %w", name, errTooMuch)
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer content.Close()
	l := &scan{files: f, found: map[string][]byte{}}
	reader := &counted{content, left}
	wrong := l.archive(reader)
	if _, err = io.Copy(io.Discard, reader); err != nil { // to its end, where the digest is compared
		return fmt.Errorf("%s: %w", name, err)
	}
	if wrong == nil {
		wrong = f.take(l)
	}
	if wrong != nil { // for good: it is what the digest names
		return fmt.Errorf("%w: %s: %s", ErrNoRelease, name, wrong.Error())
	}
	return nil
}

var errTooMuch = fmt.Errorf("its last layers have more than %d MiB until %s and %s are found, which no release has", maxScanned>>20, referencesFile, metadataFile)

// A budget is the number of bytes that may still be read.
type budget struct{ left int }

// A counted reader takes what it reads from a budget.
type counted struct {
	io.Reader
	*budget
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p[:min(len(p), c.left+1)])
	if c.left -= n; c.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// A scan is one layer.
type scan struct {
	*files
	found   map[string][]byte
	removed []string
}

// archive keeps the files of a layer that are of use.
func (s *scan) archive(r io.Reader) error {
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading its archive: %w", err)
		}
		name := path.Clean(strings.TrimLeft(header.Name, "/"))
		if slices.Contains(strings.Split(header.Name, "/"), "..") {
			return fmt.Errorf("it has a path that leads out of it: %q", text.Cut(text.Line(header.Name), maxShown))
		}
		if err := s.entry(name, header, archive); err != nil {
			return err
		}
	}
}

func (s *scan) entry(name string, header *tar.Header, content io.Reader) error {
	base := path.Base(name)
	switch {
	case base == opaque:
		s.removed = append(s.removed, path.Dir(name))
		return nil
	case strings.HasPrefix(base, whiteout):
		s.removed = append(s.removed, path.Join(path.Dir(name), strings.TrimPrefix(base, whiteout)))
		return nil
	case path.Dir(name) != folder || s.isHidden(name) || header.Typeflag == tar.TypeDir:
		return nil
	case header.Typeflag != tar.TypeReg:
		if name == referencesFile || name == metadataFile {
			return fmt.Errorf("%s is no file but a link", name)
		}
		return nil
	case header.Size > maxFile:
		return fmt.Errorf("%s has %d MiB, more than any release (%d)", text.Line(text.Cut(name, maxShown)), header.Size>>20, maxFile>>20)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("reading %s: %w", text.Line(text.Cut(name, maxShown)), err)
	}
	s.found[name] = data
	return nil
}

// What layers call a file that they remove, and a folder of which they hide what is below
// (github.com/opencontainers/image-spec, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// isHidden reports whether a later layer has the file, or has removed it or the folder.
func (f *files) isHidden(name string) bool {
	return f.hidden[name] || f.hidden[folder] || f.hidden["."]
}

// take keeps what a layer has, and what it hides of those below.
func (f *files) take(s *scan) error {
	for name, data := range s.found {
		switch name {
		case referencesFile:
			f.references = data
		case metadataFile:
			f.metadata = data
		default:
			if err := f.manifest(name, data); err != nil {
				return err
			}
		}
		f.hidden[name] = true
	}
	for _, name := range s.removed {
		f.hidden[name] = true
	}
	return nil
}

var (
	runLevel = regexp.MustCompile(`^0000_(\d{1,4})_`)
	digests  = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
)

// manifest notes which images a manifest names, and the image policies in it.
func (f *files) manifest(name string, data []byte) error {
	base := path.Base(name)
	if match := runLevel.FindStringSubmatch(base); match != nil {
		level, _ := strconv.Atoi(match[1])
		for _, digest := range digests.FindAll(data, -1) {
			if lowest, ok := f.levels[string(digest)]; !ok || level < lowest {
				f.levels[string(digest)] = level
			}
		}
	}
	if !bytes.Contains(data, []byte("ClusterImagePolicy")) {
		return nil
	}
	return f.imagePolicies(text.Line(text.Cut(base, maxShown)), data)
}

// featureSets is the annotation by which CVO leaves a manifest out of clusters with another feature set.
const featureSets = "release.openshift.io/feature-set"

// imagePolicies keeps the image policies of a manifest that are for all clusters.
func (f *files) imagePolicies(name string, data []byte) error {
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var p configv1.ClusterImagePolicy
		if err == nil {
			err = sigsyaml.Unmarshal(document, &p)
		}
		if err != nil {
			return fmt.Errorf("%s: it cannot be read: %w", name, err)
		}
		sets, limited := p.Annotations[featureSets]
		if p.Kind != "ClusterImagePolicy" || limited && !slices.Contains(strings.Split(sets, ","), "Default") {
			continue
		}
		if f.policies = append(f.policies, &p); len(f.policies) > maxPolicies {
			return fmt.Errorf("%s: more image policies than any release has", name)
		}
	}
}
