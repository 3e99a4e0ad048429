package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containers/image/v5/manifest"
	"github.com/containers/image/v5/types"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// maxPlatforms bounds what a Fact remembers of an index.
	maxPlatforms = 64
	// maxLookedUp bounds the children of an index that are looked up, and what a Fact says of them. Nodes of one platform choose one;
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
	return text.OneLine(p.String(), wire.MaxQuote)
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
	same := slices.DeleteFunc(slices.Clone(x.children), func(child indexEntry) bool {
		return child.digest != d || child.platform != nil && !child.isFor(platform)
	})
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

// A choice is a child of an index that nodes of a platform may choose.
type choice struct {
	indexEntry
	of string // the platform, as nodes have it; where that is not known, as the index has it
}

// choices returns those of nodes of some platforms; if there are none, of nodes of unknown ones.
func (x index) choices(platforms []string) (all []choice) {
	for _, p := range platforms {
		for _, child := range x.chosen(p) {
			all = append(all, choice{child, p})
		}
	}
	if len(platforms) == 0 {
		for _, child := range x.forLinux() {
			all = append(all, choice{child, child.name()})
		}
	}
	return all
}

// instances returns those of choices that are held, each once, and that nodes look for signatures of: nodes with Windows do not.
func instances(choices []choice, held func(digest.Digest) bool) []policy.Instance {
	all := []policy.Instance{}
	for _, c := range choices {
		instance := policy.Instance{Platform: c.of, Digest: c.digest.String()}
		if held(c.digest) && !strings.HasPrefix(c.of, "windows/") && !slices.Contains(all, instance) {
			all = append(all, instance)
		}
	}
	return all
}

// Chosen returns the parts of an index that nodes run and look for signatures of; where their platforms are not known, all that they may run.
func (c *Client) Chosen(mediaType string, content []byte) []policy.Instance {
	x, ok := readIndex(mediaType, content)
	if !ok {
		return nil
	}
	return instances(x.choices(c.Platforms()), func(digest.Digest) bool { return true })
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
func (x index) digests(chosen []choice) []string {
	children := x.children
	if len(children) > maxPlatforms {
		children = slices.Concat(convert.Each(chosen, func(c choice) indexEntry { return c.indexEntry }), children)
	}
	var digests []string
	for _, child := range children {
		d := text.OneLine(child.digest.String(), wire.MaxQuote)
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
	host := l.API()
	x, ok := readIndex(fact.MediaType, content)
	if !ok {
		return mismatch("%s serves an index that cannot be read; push the image again", host)
	}
	if len(x.children) == 0 {
		return mismatch("%s serves an index that lists no images; nodes would stop there", host)
	}
	platforms := l.nodes.platforms()
	choices := x.choices(platforms)
	parts, err := l.lookUpChildren(ctx, choices)
	if err != nil {
		return err
	}
	fact.Children = x.digests(choices)
	for _, p := range parts {
		fact.Size = max(fact.Size, p.size)
	}
	l.describeIndex(fact, x, choices, parts)
	fact.Instances = instances(choices, func(d digest.Digest) bool { return parts[d].held })
	if fact.Guessed = len(platforms) == 0; fact.Guessed {
		fact.Serves = guess(choices, parts)
		return nil
	}
	fact.Serves = []string{}
	for _, p := range platforms {
		own := slices.DeleteFunc(slices.Clone(choices), func(c choice) bool { return c.of != p })
		switch {
		case !suits(own, parts, p):
			fact.Lacks = append(fact.Lacks, p)
		case !slices.ContainsFunc(own, func(c choice) bool { return !parts[c.digest].whole() }):
			fact.Serves = append(fact.Serves, p)
		}
	}
	return nil
}

// suits reports whether choices, of nodes of a platform, are for it: by the index or,
// where that does not say, by their config.
func suits(choices []choice, parts map[digest.Digest]part, platform string) bool {
	return slices.ContainsFunc(choices, func(c choice) bool {
		found := parts[c.digest].platform
		return c.platform != nil || found == "" || found == platform
	})
}

// guess returns the platforms of the parts that are there.
func guess(choices []choice, parts map[digest.Digest]part) []string {
	serves := []string{}
	for _, c := range choices {
		name := cmp.Or(c.of, parts[c.digest].platform)
		if parts[c.digest].whole() && name != "" && !slices.Contains(serves, name) {
			serves = append(serves, name)
		}
	}
	return serves
}

// unnamed is how messages refer to a child whose platform is not known.
const unnamed = "an unnamed platform"

// describeIndex sets in fact what the index lists, and what is missing of what nodes choose. Others that it lists may have the
// same digest, thousands of them.
func (l *lookup) describeIndex(fact *policy.Fact, x index, choices []choice, parts map[digest.Digest]part) {
	for _, c := range choices {
		found, name := parts[c.digest], cmp.Or(c.name(), unnamed)
		if !found.whole() && !slices.Contains(fact.Missing, name) {
			fact.Missing = append(fact.Missing, name)
		}
		if found.lack != "" && fact.Detail == "" {
			fact.Detail = text.OneLine(fmt.Sprintf("its part for %s %s", name, found.lack), wire.MaxDetail)
		}
	}
	fact.Platforms = []string{}
	for _, child := range x.children {
		found, lookedUp := parts[child.digest]
		if name := child.name(); name != "" && (found.whole() || !lookedUp) && len(fact.Platforms) < maxPlatforms {
			fact.Platforms = append(fact.Platforms, name)
		}
	}
}

// lookUpChildren looks up what the registry has of what nodes choose.
func (l *lookup) lookUpChildren(ctx context.Context, choices []choice) (map[digest.Digest]part, error) {
	if len(choices) > maxLookedUp {
		return nil, wire.Unreachable("%s serves an index of more than %d images that nodes might choose; they are not looked up", l.API(), maxLookedUp)
	}
	parts := map[digest.Digest]part{}
	for _, child := range choices {
		if _, known := parts[child.digest]; known {
			continue
		}
		if child.digest.Validate() != nil {
			return nil, mismatch("%s serves an index that cannot be read; push the image again", l.API())
		}
		found, err := l.checkChild(ctx, child.indexEntry)
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
	var r wire.Response
	var err error
	if of.asksByHead() && child.platform != nil {
		if r, err = of.Head(ctx, of.manifest()); err != nil {
			return part{}, err
		}
		if fact, ok := of.present(r); ok {
			return partOf(fact.MediaType), nil
		}
	}
	if r, err = of.counted(of.Get(ctx, of.manifest(), r)); err != nil {
		return part{}, err
	}
	switch f := of.Refused(r); {
	case f != nil && f.Presence == policy.Absent:
		return part{}, nil
	case f != nil:
		return part{}, f
	}
	mediaType, isManifest := of.manifestType(r)
	if !isManifest || of.target.sum(r.Body) != child.digest {
		return part{}, nil
	}
	p := partOf(mediaType)
	p.size = layersOf(r.Body)
	if !p.whole() {
		return p, nil
	}
	if child.platform == nil {
		p.platform, p.lack, err = of.platform(ctx, mediaType, r.Body)
	}
	if of.target.depth == mirrors.DepthBlobs && err == nil {
		p.lack, err = of.missingBlobs(ctx, mediaType, r.Body)
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
