package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// maxConfig is the most that nodes read (containers/image internal/iolimits).
	maxConfig = 4 << 20
	// maxKnownConfigs bounds their number in memory: some 5 MB.
	maxKnownConfigs = 1 << 15
)

// checkImage sets in fact the platform that a single image is for, by its config. It fails
// if the config is missing or, if they are to be checked, other blobs are. Nodes pull an
// image for another platform all the same, and cannot run it (containers/image
// copy/single.go, checkImageDestinationForCurrentRuntime, only logs).
func (l *lookup) checkImage(ctx context.Context, fact *policy.Fact, manifest []byte) error {
	deep := l.target.depth == mirrors.DepthBlobs
	if deep {
		if _, err := l.blobs(fact.MediaType, manifest); err != nil {
			return err
		}
	}
	platform, lack, err := l.platform(ctx, fact.MediaType, manifest)
	if deep && err == nil {
		lack, err = l.missingBlobs(ctx, fact.MediaType, manifest)
	}
	switch {
	case err != nil:
		return err
	case lack != "":
		return incomplete("%s serves the manifest and lacks %s; nodes would stop there", l.API(), lack)
	case platform == "":
		return nil // unknown
	}
	nodes := l.nodes.platforms()
	fact.Serves = []string{}
	switch {
	case len(nodes) == 0:
		fact.Guessed, fact.Serves = true, []string{platform}
	case slices.Contains(nodes, platform):
		fact.Serves = append(fact.Serves, platform)
	}
	for _, p := range nodes {
		if p != platform {
			fact.Lacks = append(fact.Lacks, p)
		}
	}
	return nil
}

// An imageConfig is the part of a config, or of a manifest of schema 1, that names the
// platform.
type imageConfig struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// platform returns what an image is for, as os/architecture, "" if its config does not say,
// and a description of the config if that is missing. A config is read once, wherever
// copies of it are; for the other copies, only their existence is checked.
func (l *lookup) platform(ctx context.Context, mediaType string, manifest []byte) (platform, lack string, err error) {
	if isSchema1(mediaType) {
		return platformOf(manifest, "linux"), "", nil // Docker had no other then
	}
	var m struct {
		Config descriptor `json:"config"`
	}
	if json.Unmarshal(manifest, &m) != nil || m.Config.Digest.Validate() != nil {
		return "", "", mismatch("%s serves a manifest that nodes cannot read; push the image again", l.API())
	}
	var held bool
	platform, known := l.configs.get(m.Config.Digest)
	if known {
		held, err = l.known().held(ctx, l, m.Config.Digest)
	} else {
		platform, held, err = l.readConfig(ctx, m.Config.Digest)
	}
	if err == nil && !held {
		lack = fmt.Sprintf("its config (%s)", text.ShortDigest(m.Config.Digest.String()))
	}
	return platform, lack, err
}

func platformOf(config []byte, os string) string {
	var c imageConfig
	if json.Unmarshal(config, &c) != nil {
		return ""
	}
	if os = cmp.Or(os, c.OS); os == "" || c.Architecture == "" {
		return ""
	}
	return text.OneLine(os+"/"+c.Architecture, wire.MaxQuote)
}

// readConfig gets a config as nodes do and remembers what it says.
func (l *lookup) readConfig(ctx context.Context, d digest.Digest) (platform string, held bool, err error) {
	r, held, err := l.read(ctx, d, maxConfig)
	if err != nil || !held {
		return "", false, err
	}
	host := l.API()
	switch {
	case r.Cut:
		return "", false, wire.Unreachable("%s serves a config of more than 4 MiB, which nodes do not take", host)
	case d.Algorithm().FromBytes(r.Body) != d:
		return "", false, mismatch("%s serves other content under the digest of the config (%s); nodes would stop there", host, text.ShortDigest(d.String()))
	}
	platform = platformOf(r.Body, "")
	l.configs.put(d, platform)
	l.known().put(l, d)
	return platform, true, nil
}

// configs remembers the platforms in configs by digest, which holds at every registry. It
// is safe for concurrent use.
type configs struct {
	mu        sync.Mutex
	platforms map[digest.Digest]string
}

func (c *configs) get(d digest.Digest) (platform string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	platform, known = c.platforms[d]
	return platform, known
}

func (c *configs) put(d digest.Digest, platform string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.platforms == nil || len(c.platforms) >= maxKnownConfigs {
		c.platforms = map[digest.Digest]string{}
	}
	c.platforms[d] = platform
}

// platformsLife bounds how often the list of nodes is read.
const platformsLife = time.Second

// nodePlatforms caches the platforms of the nodes for a moment. It is safe for concurrent
// use.
type nodePlatforms struct {
	read  func() []string // nil if they are not to be known
	mu    sync.Mutex
	list  []string
	since time.Time
}

// Platforms returns the platforms of the nodes, sorted, none if they are not known. The
// result must not be changed.
func (c *Client) Platforms() []string { return c.nodes.platforms() }

func (n *nodePlatforms) platforms() []string {
	if n.read == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.since.IsZero() || time.Since(n.since) >= platformsLife {
		list := slices.Clone(n.read())
		slices.Sort(list)
		n.list, n.since = slices.Compact(list), time.Now()
	}
	return n.list
}
