// Package audit makes the records of the webhook's decisions: who asked for what, how it was
// answered, and on what grounds. Package api/audit/v1alpha1 has the schema.
//
//	d := auditv1alpha1.Decision{UID: uid, Verdict: "denied"} // and who, what, when
//	audit.Rest(&d, record)                           // the findings, counts and forecast of a review
//	line, err := d.Line()
//
// A record holds no secrets: credentials are left out of its fields. Every list in it is bounded, and
// says how much was left out.
//
// The package is pure: package auditlog writes lines.
package audit
