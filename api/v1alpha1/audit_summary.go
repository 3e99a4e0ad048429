package v1alpha1

import "time"

// An AuditSummary sums decisions up (kind AuditSummary).
type AuditSummary struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Decisions is how many there are, First and Last are their times; null if there is none.
	Decisions int        `json:"decisions"`
	First     *time.Time `json:"first"`
	Last      *time.Time `json:"last"`
	// Verdicts, Users, Objects and Rules count the decisions with each, the most frequent first.
	Verdicts []AuditCount `json:"verdicts"`
	Users    []AuditCount `json:"users"`
	Objects  []AuditCount `json:"objects"`
	// Rules counts those that objected, whatever the severity.
	Rules []AuditCount `json:"rules"`
	// Overridden is how many were admitted by an override, DryRuns how many were dry runs.
	Overridden int `json:"overridden"`
	DryRuns    int `json:"dryRuns"`
	// Confirmed is how many overrides are known to be in force, Unconfirmed how many never came.
	Confirmed   int `json:"confirmed"`
	Unconfirmed int `json:"unconfirmed"`
	// Lost is how many records are known to be lost.
	Lost int `json:"lost"`
}

// An AuditCount is the number of decisions that have something. The name is "" for those that found no
// room of their own in an AuditSummary.
type AuditCount struct {
	Name      string `json:"name"`
	Decisions int    `json:"decisions"`
}
