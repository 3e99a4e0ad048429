// Package policy decides whether a change of the mirror configuration is safe.
//
// The package is pure: it reads no clock, opens no connection and writes no
// log. A decision takes three steps, with the looking-up in the middle left to
// the caller:
//
//	plan := policy.NewPlan(change, cluster, settings) // which images take a new route?
//	facts := lookUp(ctx, plan.Lookups(facts))         // what is really there? until nothing is left to look up
//	verdict := plan.Decide(facts)                     // may this happen?
//
// The admission webhook, the command line and the standing verifier all make
// these calls, so they cannot disagree.
//
// What a change makes worse is denied. What is proved to be broken today, or to be no
// worse afterwards, is reported, and never blocks a repair. What could not be determined
// weakens nothing.
package policy
