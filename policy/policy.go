// Package policy decides whether a change of the mirror configuration is safe.
//
// The package is pure: it reads no clock, opens no connection and writes no
// log. A decision takes three steps, with the looking-up in the middle left to
// the caller:
//
//	plan := policy.NewOutline(change, cluster, settings).Plan() // which images take a new route?
//	facts := lookUp(ctx, plan.Lookups(facts))                   // what is really there? until nothing is left to look up
//	verdict := plan.Decide(facts)                               // may this happen?
//
// What it does to the nodes, and whether the rollout gets through, is a fourth:
//
//	forecast := plan.Forecast(facts, by)
//	verdict = plan.WithForecast(verdict, forecast)
//
// The admission webhook, the command line and the standing verifier all make
// these calls, so they cannot disagree.
//
// What a change makes worse is denied. A fault proved to exist today, or to be no worse afterwards, is
// reported, and never blocks a repair. An undetermined fact weakens nothing. Settings may exempt from
// denials, or admit denied changes; the record of an answer says where they did.
package policy
