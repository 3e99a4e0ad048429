package registry

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/containers/image/v5/manifest"
	"github.com/containers/image/v5/types"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// maxPlatforms bounds what a Fact remembers of an index.
	maxPlatforms = 64
	// maxLookedUp bounds the children of an index that are looked up. Nodes of one platform choose one;
	// there are more only where the nodes are not known or run Windows: an index may have a child for
	// each of its versions.
	maxLookedUp = 64
)

// An indexEntry is a child of an index, as the index describes it.
type indexEntry struct {
	digest   digest.Digest
	platform *imagespec.Platform // nil if unknown
}

// name returns the platform of the child, "" if the index does not say.
func (child indexEntry) name() string {
	if child.platform == nil {
		return ""
	}
	p := v1.Platform{OS: child.platform.OS, Architecture: child.platform.Architecture, Variant: child.platform.Variant, OSVersion: child.platform.OSVersion}
	return text.OneLine(p.String(), maxQuote)
}

// isFor reports whether the index lists the child for a platform of nodes.
func (child indexEntry) isFor(platform string) bool {
	return child.platform != nil && child.platform.OS+"/"+child.platform.Architecture == platform
}

// An index lists the images that nodes choose from.
type index struct {
	list     manifest.List
	children []indexEntry // without attestations
}

// readIndex reads an index as nodes do, with their own code.
func readIndex(mediaType string, content []byte) (x index, ok bool) {
	if mediaType == manifest.DockerV2ListMediaType {
		list, err := manifest.Schema2ListFromManifest(content)
		if err != nil {
			return index{}, false
		}
		x.list = list
		for _, d := range list.Manifests {
			p := imagespec.Platform{
				OS: d.Platform.OS, Architecture: d.Platform.Architecture, Variant: d.Platform.Variant, OSVersion: d.Platform.OSVersion,
			}
			x.children = append(x.children, indexEntry{d.Digest, &p})
		}
	} else {
		list, err := manifest.OCI1IndexFromManifest(content)
		if err != nil {
			return index{}, false
		}
		x.list = list
		for _, d := range list.Manifests {
			x.children = append(x.children, indexEntry{d.Digest, d.Platform})
		}
	}
	x.children = slices.DeleteFunc(x.children, func(child indexEntry) bool { return child.platform != nil && child.platform.OS == "unknown" })
	return x, true
}

// chosen returns the children that nodes of a platform may choose. On Linux that is one at most: CRI-O
// leaves the choice to containers/image. On Windows containerd goes by the version of Windows, which is
// not known here, so that it may be any of them.
func (x index) chosen(platform string) []indexEntry {
	os, architecture, _ := strings.Cut(platform, "/")
	if os == "windows" {
		return slices.DeleteFunc(slices.Clone(x.children), func(child indexEntry) bool { return !child.isFor(platform) })
	}
	d, err := x.list.ChooseInstance(&types.SystemContext{
		OSChoice: os, ArchitectureChoice: architecture, VariantChoice: variantOf(architecture),
	})
	if err != nil {
		return nil
	}
	same := slices.DeleteFunc(slices.Clone(x.children), func(child indexEntry) bool { return child.digest != d })
	if i := slices.IndexFunc(same, func(child indexEntry) bool { return child.isFor(platform) }); i >= 0 {
		return same[i : i+1]
	}
	return same[:min(1, len(same))]
}

// variantOf returns the variant that nodes of an architecture find out about
// themselves: they read it from /proc/cpuinfo on ARM, and only there (containers/image
// internal/pkg/platform, getCPUVariant). The kernel says 8 on every arm64. OpenShift has
// no 32-bit nodes; where there are some, v7 is the least that runs them.
func variantOf(architecture string) string {
	return map[string]string{"arm64": "v8", "arm": "v7"}[architecture]
}

// Chosen returns the parts of an index that nodes run and look for signatures of; where their platforms are not known, all that they may run.
func (c *Client) Chosen(mediaType string, content []byte) (instances []policy.Instance) {
	x, ok := readIndex(mediaType, content)
	if !ok {
		return nil
	}
	platforms := c.Platforms()
	for _, p := range platforms {
		for _, child := range x.chosen(p) {
			if !strings.HasPrefix(p, "windows/") {
				instances = append(instances, policy.Instance{Platform: p, Digest: child.digest.String()})
			}
		}
	}
	if len(platforms) > 0 {
		return instances
	}
	for _, child := range x.forLinux() {
		instances = append(instances, policy.Instance{Platform: child.name(), Digest: child.digest.String()})
	}
	return instances
}

// forLinux returns the children that nodes of unknown platforms may choose from: all that
// are for Linux, or else those without a platform.
func (x index) forLinux() []indexEntry {
	keep := func(is func(indexEntry) bool) []indexEntry {
		return slices.DeleteFunc(slices.Clone(x.children), func(child indexEntry) bool { return !is(child) })
	}
	if linux := keep(func(child indexEntry) bool { return child.platform != nil && child.platform.OS == "linux" }); len(linux) > 0 {
		return linux
	}
	return keep(func(child indexEntry) bool { return child.platform == nil })
}

// digests returns the digests of the children; if there are more than a Fact remembers,
// those that nodes may run come first.
func (x index) digests(chosen []indexEntry) []string {
	children := x.children
	if len(children) > maxPlatforms {
		children = slices.Concat(chosen, children)
	}
	var digests []string
	for _, child := range children {
		d := text.OneLine(child.digest.String(), maxQuote)
		if len(digests) < maxPlatforms && !slices.Contains(digests, d) {
			digests = append(digests, d)
		}
	}
	return digests
}

// A part describes what the registry has of a child of an index.
type part struct {
	held     bool
	lack     string // what it lacks, "" if it is whole or not there at all
	platform string // by its config, "" if that was not read or does not say
	size     int64  // of its layers, 0 if that is not known
}

func (p part) whole() bool { return p.held && p.lack == "" }

// checkIndex sets in fact what nodes get from an index: which of their platforms it is for,
// and whether the registry holds what these would choose. A mirror may have copied the
// index and only some of what it lists.
func (l *lookup) checkIndex(ctx context.Context, fact *policy.Fact, content []byte) error {
	host := l.endpoint.api
	x, ok := readIndex(fact.MediaType, content)
	if !ok {
		return mismatch("%s serves an index that cannot be read; push the image again", host)
	}
	if len(x.children) == 0 {
		return mismatch("%s serves an index that lists no images; nodes would stop there", host)
	}
	platforms := l.endpoint.generation.client.Platforms()
	choices := map[string][]indexEntry{}
	var chosen []indexEntry
	for _, p := range platforms {
		choices[p] = x.chosen(p)
		chosen = append(chosen, choices[p]...)
	}
	if fact.Guessed = len(platforms) == 0; fact.Guessed {
		chosen = x.forLinux()
	}
	parts, err := l.lookUpChildren(ctx, chosen)
	if err != nil {
		return err
	}
	fact.Children = x.digests(chosen)
	for _, p := range parts {
		fact.Size = max(fact.Size, p.size)
	}
	l.describeIndex(fact, x, parts)
	fact.Serves = []string{}
	if fact.Guessed {
		fact.Serves, fact.Instances = guess(chosen, parts), instancesOf(chosen, parts)
		return nil
	}
	fact.Instances = []policy.Instance{}
	for _, p := range platforms {
		for _, child := range choices[p] {
			if parts[child.digest].held && !strings.HasPrefix(p, "windows/") { // whose nodes look for no signatures
				fact.Instances = append(fact.Instances, policy.Instance{Platform: p, Digest: child.digest.String()})
			}
		}
		switch {
		case !suits(choices[p], parts, p):
			fact.Lacks = append(fact.Lacks, p)
		case !slices.ContainsFunc(choices[p], func(child indexEntry) bool { return !parts[child.digest].whole() }):
			fact.Serves = append(fact.Serves, p)
		}
	}
	return nil
}

// suits reports whether choices, of nodes of a platform, are for it: by the index or,
// where that does not say, by their config.
func suits(choices []indexEntry, parts map[digest.Digest]part, platform string) bool {
	return slices.ContainsFunc(choices, func(child indexEntry) bool {
		found := parts[child.digest].platform
		return child.platform != nil || found == "" || found == platform
	})
}

// instancesOf returns those of the parts that are there.
func instancesOf(chosen []indexEntry, parts map[digest.Digest]part) []policy.Instance {
	instances := []policy.Instance{}
	for _, child := range chosen {
		instance := policy.Instance{Platform: child.name(), Digest: child.digest.String()}
		if parts[child.digest].held && !slices.Contains(instances, instance) {
			instances = append(instances, instance)
		}
	}
	return instances
}

// guess returns the platforms of the parts that are there.
func guess(chosen []indexEntry, parts map[digest.Digest]part) []string {
	serves := []string{}
	for _, child := range chosen {
		name := child.name()
		if name == "" {
			name = parts[child.digest].platform
		}
		if parts[child.digest].whole() && name != "" && !slices.Contains(serves, name) {
			serves = append(serves, name)
		}
	}
	return serves
}

// unnamed is how messages refer to a child whose platform is not known.
const unnamed = "an unnamed platform"

// describeIndex sets in fact what the index lists, and what of it is missing.
func (l *lookup) describeIndex(fact *policy.Fact, x index, parts map[digest.Digest]part) {
	fact.Platforms = []string{}
	for _, child := range x.children {
		name := child.name()
		found, lookedUp := parts[child.digest]
		switch {
		case lookedUp && !found.whole():
			if name == "" {
				name = unnamed
			}
			if !slices.Contains(fact.Missing, name) {
				fact.Missing = append(fact.Missing, name)
			}
			if found.lack != "" && fact.Detail == "" {
				fact.Detail = text.OneLine(fmt.Sprintf("its part for %s %s", name, found.lack), maxDetail)
			}
		case name != "" && len(fact.Platforms) < maxPlatforms:
			fact.Platforms = append(fact.Platforms, name)
		}
	}
}

// lookUpChildren looks up what the registry has of children.
func (l *lookup) lookUpChildren(ctx context.Context, children []indexEntry) (map[digest.Digest]part, error) {
	parts := map[digest.Digest]part{}
	for _, child := range children {
		if _, known := parts[child.digest]; known {
			continue
		}
		if child.digest.Validate() != nil {
			return nil, mismatch("%s serves an index that cannot be read; push the image again", l.endpoint.api)
		}
		if len(parts) == maxLookedUp {
			return nil, unreachable("%s serves an index of more than %d images that nodes might choose; no more are looked up",
				l.endpoint.api, maxLookedUp)
		}
		found, err := l.checkChild(ctx, child)
		if err != nil {
			return nil, err
		}
		parts[child.digest] = found
	}
	return parts, nil
}

// nested says why nodes reject a child that is an index (containers/image copy/single.go,
// copySingleImage).
const nested = "is itself an index, which nodes do not accept"

// checkChild looks up whether the registry has a child's manifest and, if they are to be
// checked, its blobs.
func (l *lookup) checkChild(ctx context.Context, child indexEntry) (part, error) {
	of := *l
	of.target.digest, of.target.tag = child.digest, ""
	var r response
	var err error
	if of.asksByHead() && child.platform != nil {
		if r, err = of.head(ctx); err != nil {
			return part{}, err
		}
		if fact, ok := of.present(r); ok {
			return partOf(fact.MediaType), nil
		}
	}
	if r, err = of.get(ctx, r); err != nil {
		return part{}, err
	}
	switch {
	case r.status == http.StatusNotFound, r.status == http.StatusGone:
		return part{}, nil
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return part{}, of.denied(r)
	case r.status != http.StatusOK:
		return part{}, statusFailure(l.endpoint.api, r)
	}
	mediaType, isManifest := of.manifestType(r)
	if !isManifest || !of.target.matches(r.body) {
		return part{}, nil
	}
	p := partOf(mediaType)
	p.size = layersOf(r.body)
	if !p.whole() {
		return p, nil
	}
	if child.platform == nil {
		p.platform, p.lack, err = of.platform(ctx, mediaType, r.body)
	}
	if of.target.depth == mirrors.DepthBlobs && err == nil {
		p.lack, err = of.missingBlobs(ctx, mediaType, r.body)
	}
	if p.lack != "" {
		p.lack = "lacks " + p.lack
	}
	return p, err
}

// partOf returns the part for a child whose manifest is there.
func partOf(mediaType string) part {
	p := part{held: true}
	if isIndex(mediaType) {
		p.lack = nested
	}
	return p
}
