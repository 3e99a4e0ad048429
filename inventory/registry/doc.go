// Package registry is the client of one registry: it finds out what a node would meet
// at a location. Does the registry answer there, and does it hold the image?
//
//	client := registry.NewClient(registry.Options{Credentials: credentials})
//	defer client.Close()
//	fact := client.Probe(ctx, location)
//
// A Client states the answer as a [policy.Fact]. It asks each time; package presence
// keeps what it finds.
//
// # Where to find what
//
//   - A 401, and how requests are authorized: auth.go. Tokens: tokens.go. The entries of
//     the pull secret: package pullsecret.
//   - Questions about an image: manifest.go; about an index, platforms.go; about the config of a single
//     image, config.go; about blobs, blobs.go.
//   - The way of a request, its proxy and its trust: transport.go. Addresses that are never asked, and what a failed
//     connection means: package connection.
//   - GET /v2/, and whether a registry answers at all: endpoint.go.
//   - How fast a registry is asked, and when it is left alone: pace.go; the numbers are
//     in package limits.
//   - What an answer, or the lack of one, means in words: failure.go.
//   - What ends when credentials or trust change: generation.go.
//
// # What a node does
//
// Nodes pull with containers/image, so its docker/docker_client.go (v5.36.2) is
// the model: GET /v2/ must answer 200 or 401; the challenges of that answer, not
// those of later ones, decide how to authenticate; then GET manifest must answer
// 200. Where the Client saves (HEAD before GET at the Docker Hub, which counts the latter, one token for many
// repositories) it does so only as long as the answer is good news; bad news is
// always confirmed by the request that a node would make.
//
// # Why not go-containerregistry's client
//
// A mirror set is a list of addresses that its author chose for us to call, with the
// cluster's pull secret at hand. The transport of go-containerregistry
// v0.22.1 retries without regard to the context, never reads Retry-After,
// follows the redirects of a HEAD without end and those of a ping to plain http,
// reads the body of a ping without limit, lets one caller's cancelled context
// fail another's request, quotes 60 kB of a registry's text in an error and falls
// back to http, credentials included, for registries named by a private address.
// To fence all that off from outside would take more code than the exchange
// itself, which is four requests. So the exchange is made here, on net/http;
// media types and the format of indexes come from go-containerregistry, the
// parsing of references from containers/image.
//
// # What it refuses
//
// Credentials go to the host, and the repositories, that their entry names, and
// to the token server that this host names, over verified TLS; in clear text only
// where the location is insecure. Along a redirect they are sent to the very server
// that it came from, by the same protocol, and to no other. A location that is not
// insecure is never asked in clear text. Loopback, link-local and metadata addresses
// are not dialled. Whatever a registry sends is bounded: header, body, redirects,
// time. Its words are quoted, cut and kept on one line.
package registry
