// Package limits holds the limits on requests to one registry, each number with its
// reason: how many the client of a registry, and the store that asks through it, may have
// under way, how fast, and for how long. It holds nothing else.
//
// They work together. A store starts up to ProbesPerRegistry probes; each sends its requests as slots
// of the registry's pace become free: at most RequestsPerRegistry slots, fewer where the registry is
// slow or refuses; and no faster than the registry's own published rate.
package limits

import "time"

const (
	// RequestTimeout bounds one request, with its answer (wire.Options.Timeout): a third
	// of what a review has, so that a second place can be asked after one that hangs.
	RequestTimeout = 5 * time.Second
	// ConnectTimeout bounds the making of a connection, and again its TLS handshake
	// (wire.Options.DialTimeout). Where several ports may have to be tried they share it.
	ConnectTimeout = 3 * time.Second
	// ProbeTimeout bounds all requests about one location:
	// tokens, the manifest, and blobs of an image of many layers.
	ProbeTimeout = 30 * time.Second

	// RequestsPerRegistry bounds the requests under way to one registry. Measured with 2,000 images, docker/distribution v3
	// answers them in 3.07, 1.10 and 0.86 s with 16, 64 and 256 requests at a time: beyond
	// 64 four times the load on the registry saves a fifth of the time.
	RequestsPerRegistry = 64
	// ProbesPerRegistry bounds the locations of one registry that are looked up at a
	// time. A probe has one request under way, but where
	// it looks for blobs, so that this many keep the registry's slots in use.
	ProbesPerRegistry = RequestsPerRegistry
	// ProbesAtOnce bounds the locations that are looked up at a time at all registries
	// together: four registries at their full width.
	ProbesAtOnce = 4 * ProbesPerRegistry
	// ProbesOfSilentRegistry bounds the probes of a registry that has not answered, so
	// that one that is dead takes the place of one request and not of hundreds.
	ProbesOfSilentRegistry = 1

	// RefreshShare is the part of ProbesPerRegistry that refreshes in the background may
	// take: one in 8, so that a review finds the others free.
	RefreshShare = 8
	// RefreshesPerSecond bounds the refreshes of one registry a second: a tenth of what Quay lets through.
	RefreshesPerSecond = 50

	// QuayRequestsPerSecond stays below the 500 requests a second over one HTTP/2
	// connection (burst 50) beyond which quay.io answers 429, as it publishes.
	QuayRequestsPerSecond = 450
	// RequestBurst is how many requests a rate lets through at once after a pause, as Quay does even
	// over HTTP/1.1.
	RequestBurst = 10

	// TokensAtOnce bounds the tokens that are fetched at a time for one credential at one
	// registry: token servers are guarded more closely than manifests. Quay publishes 120
	// a second with a burst of 2.
	TokensAtOnce = 1
	// BlobsPerImage bounds the blobs of one image that are asked for at a time, within the registry's
	// pace: an eighth of its slots, so that one image of many layers leaves room for the others.
	BlobsPerImage = 8
	// LongBodies bounds the answers beyond LongBody that one Client, with its proposals,
	// reads at a time: few are as long, and to read all at once would let registries
	// decide how much memory is used.
	LongBodies = 4
	// LongBody is the length in bytes from which LongBodies counts. An index of 50
	// platforms with attestations has 30 kB.
	LongBody = 128 << 10
)
