// Package wire is how requests go to registries: over which connections, with which credentials and tokens, how fast,
// how often again, and what it means when there is no answer or a refusal. What is asked for, and what an answer says of
// an image, are the business of those who ask: package registry probes, package transfer moves content.
//
//	client := wire.NewClient(wire.Options{Credentials: credentials})
//	defer client.Close()
//	asNodes, err := client.Ask(ctx, repository, func(ctx context.Context, x wire.Exchange) error {
//		r, err := x.Get(ctx, wire.Request{Path: "manifests/latest", Limit: wire.MaxManifest}, wire.Response{})
//		...
//
// A Client is for all registries, an Endpoint for one of them, an Exchange for one repository there. An Exchange, by which probes
// ask, names a path below its repository, and no URL; a Sender, for what libraries send, is given whole requests. An error
// is a *Failure, whose words can be shown.
//
// # Where to find what
//
//   - Credentials, trust and rates, and when they change: client.go. What ends then: generation.go, call.go.
//   - GET /v2/, and whether a registry answers at all: endpoint.go.
//   - Requests about a repository, when they are asked again and with which token: exchange.go; of libraries: sender.go. A 401, and what it means:
//     auth.go. Tokens: tokens.go. The entries of the pull secret: package pullsecret.
//   - The way of a request, its proxy and its trust: transport.go. Addresses that are never asked, and what a failed
//     connection means: package connection.
//   - How fast a registry is asked, and when it is left alone: pace.go; the numbers are
//     in package limits.
//   - What an answer, or the lack of one, means in words: failure.go; a registry's own words: request.go.
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
// the parsing of references comes from containers/image.
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
package wire
