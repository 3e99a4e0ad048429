// Package presence keeps the facts that a [Prober] finds about images at locations, for as long as they
// can be trusted.
//
//	client := registry.NewClient(wire.Options{Credentials: credentials}, platforms)
//	defer client.Close()
//	store := presence.NewStore(client, presence.Options{})
//	defer store.Close()
//	facts := store.Presence(ctx, locations, policy.Freshness{}) // whatever is known by the time ctx ends
//
// A Store answers from facts that are fresh enough ([Lifetimes]) and asks for the rest,
// about many locations at once and each once however many callers want it. It keeps
// asking when a caller has to leave, for the next call to find. A miss is remembered
// for a while beyond its lifetime, for planning ([policy.Freshness]). While Run runs, the locations of Keep
// stay fresh. A [Proposal] answers for certificate authorities that are not in force yet, and never
// mixes its facts with the Store's.
//
// The package knows no registry: it asks any Prober. It does not answer with a fact that
// was found with other credentials, other trust or other node platforms than the present
// ones, and does not replace good news by the lack of an answer.
package presence
