// Package registry finds out what a node would meet at a location. Does the registry answer there, and does it hold
// the image?
//
//	client := registry.NewClient(wire.Options{Credentials: credentials}, platforms)
//	defer client.Close()
//	fact := client.Probe(ctx, location)
//
// A Client states the answer as a [policy.Fact]. It asks each time; package presence
// keeps what it finds.
//
// # Where to find what
//
//   - Questions about an image: manifest.go; about an index, platforms.go; about the config of a single
//     image, config.go; about blobs, blobs.go; about signatures, signatures.go.
//   - How a question goes to a registry and who is asked with which credentials: package wire, which refuses what is too
//     dangerous to send, to call or to read. Nothing is sent to a registry but through it.
//   - Images that are copied or read whole, by a library: package transfer.
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
// Media types and the format of indexes come from go-containerregistry.
package registry
