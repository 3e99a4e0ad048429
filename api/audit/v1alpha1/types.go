// Package v1alpha1 has the records of decisions: who wanted what, what came of it, and what that rests on.
// A record is one line of JSON with the schema Decision; docs/audit.md is made from the comments of the
// types.
package v1alpha1

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
)

// The version and kind of every line.
const (
	// APIVersion is the version of the schema. Fields are added without a new version; none
	// changes its meaning or goes away.
	APIVersion = "audit.mirrorset-guard.io/v1alpha1"
	// Kind is that of the record of a decision.
	Kind = "Decision"
	// LossKind is that of a record about lines that could not be written.
	LossKind = "Loss"
	// ConfirmationKind is that of a record about what became of an override.
	ConfirmationKind = "Confirmation"
)

// A Decision is the record of one admission request and its answer.
type Decision struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is when the request was answered, in UTC, by the clock of the replica.
	Time time.Time `json:"time"`
	// UID is that of the admission request. The audit annotation uid says the same.
	UID string `json:"uid"`
	// Verdict is allowed, denied, waived (the rules deny it, the mode admits it), overridden
	// (it was refused, an override admits it), none (there was no verdict) or malformed (the
	// request could not be read).
	Verdict  string `json:"verdict"`
	Admitted bool   `json:"admitted"`
	// Mode is enforce, warn or audit.
	Mode string `json:"mode,omitempty"`
	// Operation is CREATE, UPDATE or DELETE.
	Operation string `json:"operation"`
	DryRun    bool   `json:"dryRun"`
	// SenderNotKnown is set if no change of who sent the request was seen in force so far, so that perhaps no API
	// server has asked, and User is made up.
	SenderNotKnown bool   `json:"senderNotKnown,omitempty"`
	User           User   `json:"user"`
	Object         Object `json:"object"`
	// OldSpecHash is the SHA-256 of the spec before the change: specs that mean the same have the same.
	OldSpecHash string `json:"oldSpecHash,omitempty"`
	// NewSpecHash is that of the spec that was asked for.
	NewSpecHash string `json:"newSpecHash,omitempty"`
	// Reason is what the refused user reads, or would read without the mode or the override, on one line and cut.
	Reason string `json:"reason,omitempty"`
	// Rules count all findings by rule and severity.
	Rules []RuleCount `json:"rules,omitempty"`
	// Findings are the most severe of them, with long texts and lists cut.
	Findings []v1alpha1.Finding `json:"findings,omitempty"`
	// FindingsOmitted is how many more there are.
	FindingsOmitted int `json:"findingsOmitted,omitempty"`
	// Exemptions are the names of those that made a warning of a denial.
	Exemptions []string `json:"exemptions,omitempty"`
	// Override is the one that admitted the change, or did not count.
	Override *Override `json:"override,omitempty"`
	// Images are those that the decision rests on; left out if nothing was reviewed.
	Images *v1alpha1.Counts `json:"images,omitempty"`
	// Forecast is what the change does to the nodes, in a line.
	Forecast string `json:"forecast,omitempty"`
	// Notes say what could not be read, for instance.
	Notes []string `json:"notes,omitempty"`
	// Seconds is how long the answer took.
	Seconds float64 `json:"seconds"`
	Guard   Guard   `json:"guard"`
}

// A User is the person or account that asked for a change; of one who was impersonated, that one.
type User struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups,omitempty"`
	// GroupsOmitted is how many more there are.
	GroupsOmitted int `json:"groupsOmitted,omitempty"`
}

// An Object is the object that a change is about.
type Object struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// A RuleCount is the number of findings that a rule has of one severity.
type RuleCount struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Count    int    `json:"count"`
}

// An Override is the outcome for the annotation that asks for a refused change to be made. A Confirmation
// with the same uid says whether the change came into force.
type Override struct {
	// Result is used, no_reason, wrong_code, forbidden (the user may not) or unknown (whether the
	// user may could not be found out).
	Result string `json:"result"`
	// Of is the verdict that it was for: denied or none.
	Of string `json:"of,omitempty"`
	// Code is what bound it to the change.
	Code string `json:"code,omitempty"`
	// Reason is the user's.
	Reason string `json:"reason,omitempty"`
	// Refused is why it did not count.
	Refused string `json:"refused,omitempty"`
}

// A Guard is one replica of the guard.
type Guard struct {
	Version string `json:"version,omitempty"`
	// Replica is the name of its pod, with something that changes with each start.
	Replica string `json:"replica,omitempty"`
}

// A Confirmation is the record of what became of an override, some seconds after its Decision. There
// is none of a dry run, and none if the guard ended meanwhile.
type Confirmation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is when that was known.
	Time time.Time `json:"time"`
	// UID is that of the Decision.
	UID string `json:"uid"`
	// Confirmed says whether the change was seen in force with the annotation. If not, another
	// webhook refused it, or no API server had asked.
	Confirmed bool   `json:"confirmed"`
	User      User   `json:"user"`
	Object    Object `json:"object"`
	Guard     Guard  `json:"guard"`
}

// A Loss is the record of lines that were lost because they could not be written, as the first
// line after that.
type Loss struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is when the last of them was lost.
	Time time.Time `json:"time"`
	// Since is when the first of them was lost.
	Since time.Time `json:"since"`
	// Lost is how many lines were lost, or requests left out of senders that are not known.
	Lost   int    `json:"lost"`
	Reason string `json:"reason"`
	Guard  Guard  `json:"guard"`
}
