// Package audit says what is recorded of a decision of the webhook: who wanted what, what came
// of it, and what that rests on. A record is one line of JSON, of which Decision is the schema;
// docs/audit.md is made from the comments of the types.
//
//	d := audit.Decision{UID: uid, Verdict: "denied"} // and who, what, when
//	d.Rest(record, facts)                            // the findings, facts, counts and forecast of a review
//	line, err := d.Line()
//
// A record holds no secrets: credentials in what is recorded are left out. Every list in it is
// bounded, and says how much was left out.
//
// The package is pure: package auditlog writes lines, and package input reads them.
package audit
