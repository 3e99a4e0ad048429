// Package transfer carries the requests of libraries that read and write images (go-containerregistry) to registries, for copying
// and for reading releases: blobs and manifests, uploads and lists of tags.
//
//	carrier, err := transfer.New(client, location, pushes)
//
// Requests are authorized, paced, repeated and bounded by package wire as those of a probe are, except for the time that a body
// takes: it may take any, as long as enough moves. What is decided here is which repository a request belongs to, which rights
// its token gets, when it may be sent again, and what a refusal means for who reads or pushes (Reason, Status, IsCache and others).
// The content of answers is not looked at.
//
// # What it refuses
//
// A request that belongs to no repository is not sent, but GET /v2/, which carries no credentials. One to another host than the
// registry's, to which an answer redirected, carries none either, whatever the library gave it. Nothing is sent about a repository
// whose entry in the pull secret is broken: libraries ask GET /v2/ first, so that they learn of it with their next request.
package transfer
