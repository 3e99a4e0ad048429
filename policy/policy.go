// Package policy has what its rooms speak of: images and consumers, facts about places, changes, findings and
// verdicts. It judges nothing, and imports none of them.
//
// All rooms are pure: they read no clock, open no connection and write no log. A decision takes three steps,
// with the looking-up in the middle left to the caller:
//
//	planned := plan.NewOutline(change, cluster, settings).Plan() // which images take a new route?
//	facts := lookUp(ctx, planned.Lookups(facts))                 // what is really there? until nothing is left to look up
//	verdict := rules.Decide(planned, facts)                      // may this happen?
//
// What it does to the nodes, and whether the rollout gets through, is a fourth:
//
//	foretold := forecast.Of(planned, facts, by)
//	verdict = rules.WithForecast(planned, verdict, foretold)
//
// The admission webhook, the command line and the standing verifier all make these calls, so they cannot
// disagree. Arrows go down: rules, forecast, plan, evidence, settings, and this package at the bottom, with words on it.
//
// What a change makes worse is denied. A fault proved to exist today, or to be no worse afterwards, is
// reported, and never blocks a repair. An undetermined fact weakens nothing. Settings may exempt from
// denials, or admit denied changes; the record of an answer says where they did.
package policy
